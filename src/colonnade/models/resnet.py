"""A residual network for small pictures, such as a quadrant of 16 x 16 pixels.

He, Zhang, Ren and Sun, "Deep residual learning for image recognition", CVPR 2016. Their network
for ImageNet begins with a convolution of 7 x 7 at stride 2 and a pool, which leave nothing of a
small picture; as in their experiments on CIFAR-10 (Section 4.2), it begins here with one of 3 x 3
at stride 1 and no pool.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from torch import Tensor, nn
from torch.nn.functional import relu

from colonnade.annotated import check_arguments
from colonnade.errors import ConfigurationError, DataError

__all__ = ["ResNet18", "group_norm"]

Norm = Callable[[int], nn.Module]

_STAGES = 4
_BLOCKS = 2  # of each stage
_GROUPS = 32


def group_norm(channels: int) -> nn.Module:
    """Return a norm over each row's own channels, in 32 groups or as many as there can be.

    Wu and He, "Group normalization", ECCV 2018.

    >>> group_norm(64).num_groups, group_norm(6).num_groups
    (32, 2)
    """
    return nn.GroupNorm(math.gcd(_GROUPS, channels), channels)


class ResNet18(nn.Module):
    """Eight residual blocks of two convolutions, the mean over the picture, and a linear layer.

    A block is

        y = relu(x' + norm(conv(relu(norm(conv(x))))))

    with convolutions of 3 x 3 and, by default, batch normalisation. Two blocks have 64 channels,
    two 128, two 256 and two 512. Where the channels double, height and width are halved, and x' is
    x after a convolution of 1 x 1 and a norm; elsewhere x' is x.

    Batch normalisation counts means and variances while training. These are part of the model's
    state, and what is predicted for a row in training mode depends on the other rows of its batch.

    Parameters
    ----------
    outputs
        The width of the embedding.
    inputs
        Channels of a picture.
    width
        Channels of the first two blocks.
    norm
        Makes the norm of so many channels: ``nn.BatchNorm2d``, or ``group_norm``, which keeps the
        rows of a batch apart, as private mechanisms need it.

    Raises
    ------
    ConfigurationError
        If a number is below 1.

    Examples
    --------
    >>> import torch
    >>> bottom = ResNet18(outputs=10)
    >>> sum(weights.numel() for weights in bottom.parameters())
    11173962
    >>> bottom(torch.zeros(2, 3, 16, 16)).shape
    torch.Size([2, 10])
    """

    @check_arguments
    def __init__(
        self, outputs: int, inputs: int = 3, width: int = 64, norm: Norm = nn.BatchNorm2d
    ) -> None:
        super().__init__()
        if min(outputs, inputs, width) < 1:
            raise ConfigurationError(
                "a residual network needs outputs, inputs and a width of 1 or more, not "
                f"{outputs}, {inputs} and {width}"
            )
        self.inputs = inputs
        self.stem = _convolution(inputs, width, 3, 1, norm)
        blocks = [_Block(width, width, 1, norm) for _ in range(_BLOCKS)]
        for stage in range(1, _STAGES):
            channels = width * 2**stage
            blocks.append(_Block(channels // 2, channels, 2, norm))
            blocks += [_Block(channels, channels, 1, norm) for _ in range(1, _BLOCKS)]
        self.blocks = nn.Sequential(*blocks)
        self.embed = nn.Linear(width * 2 ** (_STAGES - 1), outputs)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, pictures: Tensor) -> Tensor:
        """Return embeddings ``[B, outputs]``.

        Parameters
        ----------
        pictures
            Shape ``[B, inputs, H, W]``.

        Raises
        ------
        DataError
            If the pictures have another shape.
        """
        if pictures.dim() != 4 or pictures.shape[1] != self.inputs or min(pictures.shape[2:]) < 1:
            raise DataError(
                f"pictures must have the shape [rows, {self.inputs}, height, width], "
                f"not {list(pictures.shape)}; do not flatten them"
            )
        values: Tensor = self.blocks(relu(self.stem(pictures)))
        embeddings: Tensor = self.embed(values.mean((2, 3)))
        return embeddings


class _Block(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int, norm: Norm) -> None:
        super().__init__()
        self.first = _convolution(inputs, outputs, 3, stride, norm)
        self.second = _convolution(outputs, outputs, 3, 1, norm)
        self.shortcut = (
            nn.Identity() if inputs == outputs else _convolution(inputs, outputs, 1, stride, norm)
        )

    def forward(self, values: Tensor) -> Tensor:
        changed: Tensor = self.second(relu(self.first(values)))
        return relu(self.shortcut(values) + changed)


def _convolution(inputs: int, outputs: int, size: int, stride: int, norm: Norm) -> nn.Sequential:
    """Return a convolution that keeps the picture's size but for the stride, and its norm."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False),
        norm(outputs),
    )
