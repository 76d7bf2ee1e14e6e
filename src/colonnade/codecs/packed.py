"""Bodies of side information and packed codes: what their codecs check alike."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import RemoteProtocolError

__all__ = ["check_side", "refuse_filling"]


def check_side(body: bytes, size: int) -> int:
    """Return ``size``, and raise ``RemoteProtocolError`` if a body has fewer bytes."""
    if len(body) < size:
        raise RemoteProtocolError(
            f"a body of {len(body)} bytes is shorter than its side information of {size}"
        )
    return size


def refuse_filling(packed: NDArray[np.uint8], bits: int) -> None:
    """Raise ``RemoteProtocolError`` unless all after the first ``bits`` bits is zero."""
    used = bits % 8
    if used and packed[-1] >> used:
        raise RemoteProtocolError("the bits that fill up the last byte are not zero")
