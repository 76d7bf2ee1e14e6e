"""A small multi-view convolutional network, the bottom of pictures of one object from all sides."""

from __future__ import annotations

from torch import Tensor, nn

from colonnade.annotated import check_arguments
from colonnade.errors import ConfigurationError, DataError

__all__ = ["Mvcnn"]

_SMALLEST = 15  # pixels that leave one value after the first convolution and pool


class Mvcnn(nn.Module):
    """Two convolutions on each view, the largest value over the views, and a linear layer.

    For the views v = 1 ... V of an object,

        g_v = pool(relu(conv(64, 256, 3, padding 1)(pool(relu(conv(C, 64, 11, stride 4,
              padding 2)(x_v)))))),
        h   = W max(g_1, ..., g_V) + b,

    with the same convolutions for all views, so h does not depend on their order. The first pool
    takes the maximum of 3 x 3 values at stride 2. The second takes maxima on a ``grid`` of fixed
    size, so one model works for pictures of any size from 15 x 15 on; when there are 2 ``grid`` + 1
    values in each direction before it, it is the maximum of 3 x 3 at stride 2 as well.

    Su, Maji, Kalogerakis and Learned-Miller, "Multi-view convolutional neural networks for 3D shape
    recognition", ICCV 2015; with two convolutions as in the experiments of C-VFL on ModelNet10
    (Castiglia, Das, Wang and Patterson, ICML 2022, Section 5).

    Parameters
    ----------
    outputs
        The width of the embedding h.
    inputs
        Channels of a picture, C.
    grid
        Rows and columns that are left of a view before the linear layer, which has
        256 ``grid``^2 inputs. For pictures of 224 x 224, 13 is pooling at stride 2.

    Raises
    ------
    ConfigurationError
        If a number is below 1.

    Examples
    --------
    >>> import torch
    >>> bottom = Mvcnn(outputs=16)
    >>> bottom(torch.zeros(2, 3, 3, 64, 64)).shape  # 2 objects, 3 views of each
    torch.Size([2, 16])
    """

    @check_arguments
    def __init__(self, outputs: int, inputs: int = 3, grid: int = 6) -> None:
        super().__init__()
        if min(outputs, inputs, grid) < 1:
            raise ConfigurationError(
                "a multi-view network needs outputs, inputs and a grid of 1 or more, not "
                f"{outputs}, {inputs} and {grid}"
            )
        self.inputs = inputs
        self.view = nn.Sequential(
            nn.Conv2d(inputs, 64, kernel_size=11, stride=4, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(kernel_size=3, stride=2),
            nn.Conv2d(64, 256, kernel_size=3, padding=1),
            nn.ReLU(),
            nn.AdaptiveMaxPool2d(grid),
        )
        self.embed = nn.Linear(256 * grid * grid, outputs)

    def forward(self, views: Tensor) -> Tensor:
        """Return embeddings ``[B, outputs]``.

        Parameters
        ----------
        views
            Shape ``[B, V, inputs, H, W]``.

        Raises
        ------
        DataError
            If the views have another shape, or the pictures are too small.
        """
        if views.dim() != 5 or views.shape[1] == 0 or views.shape[2] != self.inputs:
            raise DataError(
                f"views must have the shape [rows, views, {self.inputs}, height, width], "
                f"not {list(views.shape)}"
            )
        if min(views.shape[3:]) < _SMALLEST:
            raise DataError(
                f"pictures must have {_SMALLEST} x {_SMALLEST} pixels or more, "
                f"not {views.shape[3]} x {views.shape[4]}"
            )
        each: Tensor = self.view(views.flatten(0, 1))
        embeddings: Tensor = self.embed(each.reshape(*views.shape[:2], -1).amax(1))
        return embeddings
