"""A small convolutional network, the bottom of parts of small pictures."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn

from colonnade.annotated import check_arguments
from colonnade.errors import ConfigurationError, DataError

__all__ = ["Cnn"]


class Cnn(nn.Module):
    """Convolutions, each halving the picture, and a linear layer.

    With the picture x,

        g_0 = x,    g_l = pool(relu(conv_l(g_{l-1}))),    h = W g_L + b,

    where each convolution is of 3 x 3 values with a padding of 1, and the pool takes the maximum of
    2 x 2 values; where a side is odd, the last row or column stands alone. So strips one pixel wide
    keep their width.

    Parameters
    ----------
    inputs
        The shape of a picture: channels, height and width.
    outputs
        The width of the embedding h.
    channels
        Of each convolution: as many as there are, so many are the layers.

    Raises
    ------
    ConfigurationError
        If a number is below 1, or there is no convolution.

    Examples
    --------
    >>> import torch
    >>> quadrant, strip = Cnn((1, 14, 14), outputs=16), Cnn((1, 28, 1), outputs=16)
    >>> quadrant(torch.zeros(5, 1, 14, 14)).shape, strip(torch.zeros(5, 1, 28, 1)).shape
    (torch.Size([5, 16]), torch.Size([5, 16]))
    """

    @check_arguments
    def __init__(
        self, inputs: tuple[int, int, int], outputs: int, channels: Sequence[int] = (16, 32)
    ) -> None:
        super().__init__()
        if not channels or min(*inputs, outputs, *channels) < 1:
            raise ConfigurationError(
                "a convolutional network needs inputs, outputs and the channels of a convolution "
                f"of 1 or more, not {list(inputs)}, {outputs} and {list(channels)}"
            )
        self.inputs = tuple(inputs)
        _, height, width = inputs
        layers: list[nn.Module] = []
        for before, after in pairwise((inputs[0], *channels)):
            layers += [
                nn.Conv2d(before, after, kernel_size=3, padding=1),
                nn.ReLU(),
                nn.MaxPool2d(kernel_size=2, ceil_mode=True),
            ]
            height, width = (height + 1) // 2, (width + 1) // 2
        self.layers = nn.Sequential(*layers)
        for layer in layers:  # or many layers would pass next to nothing at first
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        self.embed = nn.Linear(channels[-1] * height * width, outputs)

    def forward(self, pictures: Tensor) -> Tensor:
        """Return embeddings ``[B, outputs]``.

        Parameters
        ----------
        pictures
            Shape ``[B, channels, height, width]``, as ``inputs`` says.

        Raises
        ------
        DataError
            If the pictures have another shape.
        """
        if pictures.dim() != 4 or tuple(pictures.shape[1:]) != self.inputs:
            raise DataError(
                f"pictures must have the shape {['rows', *self.inputs]}, "
                f"not {list(pictures.shape)}; do not flatten them"
            )
        values: Tensor = self.layers(pictures)
        embeddings: Tensor = self.embed(values.flatten(1))
        return embeddings
