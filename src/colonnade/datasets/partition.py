"""Who sees which part of a picture: every pixel belongs to exactly one party.

Parties are called ``party_1``, ``party_2``, ... in the order in which their parts are named below.
"""

from __future__ import annotations

from typing import Literal, get_args

from torch import Tensor, contiguous_format

from colonnade.errors import ConfigurationError, DataError

__all__ = ["PartitionName", "partitioned", "quadrants", "strips"]

PartitionName = Literal["quadrants", "strips"]
"""What a configuration can ask for."""


def quadrants(images: Tensor, *, flatten: bool = True) -> dict[str, Tensor]:
    """Cut images into top left, top right, bottom left and bottom right, for four parties.

    Where a side has an odd number of pixels, the top or left part has one more.

    Parameters
    ----------
    images
        Shape ``[N, H, W]`` or ``[N, C, H, W]``, any dtype; ``H`` and ``W`` at least 2.
    flatten
        Whether a part is given as ``[N, features]`` or keeps the axes of ``images``.

    Returns
    -------
    dict
        ``party_1`` to ``party_4``, in the order above. The values are copies.

    Raises
    ------
    DataError
        If ``images`` are not images, or too small.

    Examples
    --------
    >>> import torch
    >>> parts = quadrants(torch.arange(9).reshape(1, 3, 3))
    >>> [part.tolist() for part in parts.values()]
    [[[0, 1, 3, 4]], [[2, 5]], [[6, 7]], [[8]]]
    """
    height, width = _size(images)
    if height < 2 or width < 2:
        raise DataError(f"images of {height} x {width} pixels cannot be cut into quadrants")
    y, x = (height + 1) // 2, (width + 1) // 2
    return _named(
        [images[..., :y, :x], images[..., :y, x:], images[..., y:, :x], images[..., y:, x:]],
        flatten,
    )


def strips(images: Tensor, parties: int, *, flatten: bool = True) -> dict[str, Tensor]:
    """Cut images into vertical strips, from left to right, one for each party.

    A strip is a run of whole pixel columns. Widths differ by at most one; where the columns
    cannot be shared out equally, the first strips are the wider ones.

    Parameters
    ----------
    images
        Shape ``[N, H, W]`` or ``[N, C, H, W]``, any dtype.
    parties
        How many strips, 1 to ``W``.
    flatten
        Whether a part is given as ``[N, features]`` or keeps the axes of ``images``.

    Returns
    -------
    dict
        ``party_1``, ``party_2``, ... from left to right. The values are copies.

    Raises
    ------
    DataError
        If ``images`` are not images.
    ConfigurationError
        If there are more parties than columns, or none.

    Examples
    --------
    >>> import torch
    >>> parts = strips(torch.zeros(10, 28, 28), parties=3, flatten=False)
    >>> {party: list(part.shape) for party, part in parts.items()}
    {'party_1': [10, 28, 10], 'party_2': [10, 28, 9], 'party_3': [10, 28, 9]}
    """
    _, width = _size(images)
    if not 1 <= parties <= width:
        raise ConfigurationError(
            f"images {width} columns wide can be cut into 1 to {width} strips, "
            f"not {parties}; change the number of parties"
        )
    return _named(list(images.tensor_split(parties, dim=-1)), flatten)


def partitioned(
    images: Tensor, partition: PartitionName, parties: int, *, flatten: bool = True
) -> dict[str, Tensor]:
    """Cut images the way that is called ``partition``, for so many parties.

    Raises
    ------
    DataError
        If ``images`` are not images, or too small.
    ConfigurationError
        If there is no such partition, or not for that many parties.

    Examples
    --------
    >>> import torch
    >>> list(partitioned(torch.zeros(1, 28, 28), "strips", parties=2))
    ['party_1', 'party_2']
    """
    if partition == "strips":
        return strips(images, parties, flatten=flatten)
    if partition == "quadrants":
        if parties != 4:
            raise ConfigurationError(
                f"quadrants are for 4 parties, not {parties}; "
                "set parties to 4, or partition to 'strips'"
            )
        return quadrants(images, flatten=flatten)
    raise ConfigurationError(
        f"there is no partition {partition!r}; "
        f"expected one of {', '.join(map(repr, get_args(PartitionName)))}"
    )


def _size(images: Tensor) -> tuple[int, int]:
    if images.ndim not in (3, 4) or images.numel() == 0:
        raise DataError(
            "images must have the shape [N, H, W] or [N, C, H, W] and hold a pixel, "
            f"not {list(images.shape)}"
        )
    return images.shape[-2], images.shape[-1]


def _named(parts: list[Tensor], flatten: bool) -> dict[str, Tensor]:
    # A view would keep all of every image alive, and in a process driver travel with its part.
    copies = (part.clone(memory_format=contiguous_format) for part in parts)
    return {
        f"party_{number}": part.flatten(1) if flatten else part
        for number, part in enumerate(copies, start=1)
    }
