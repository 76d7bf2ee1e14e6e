"""Which k of n places are taken, in as few bytes as we know how.

Three codes, of which the shortest is taken and told in the first byte: Rice's code of the gaps,
a bitmap, or the indices as they are. All places need nothing more; no place is not foreseen. The
bits that fill up the last byte are zero.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import RemoteProtocolError
from colonnade.kernels import support as kernels
from colonnade.kernels.packing import pack_numbers, unpack_numbers

__all__ = ["decode_support", "encode_support", "support_bytes_at_most"]

_GAPS, _BITMAP, _INDICES, _ALL = range(4)  # in the two lowest bits; above them Rice's parameter


def encode_support(indices: NDArray[np.int64], places: int) -> bytes:
    """Return the code of sorted ``indices``, all different and below ``places``.

    >>> encode_support(np.array([5, 900, 1000]), places=1024).hex()
    '1c0a3fbf31'
    """
    count = len(indices)
    if count == places:
        return bytes([_ALL])
    gaps = np.diff(indices, prepend=-1) - 1
    bits, low_bits = _rice_size(gaps)
    sizes = {_GAPS: bits, _BITMAP: places, _INDICES: count * _width(places)}
    best = min(sizes, key=lambda code: (-(-sizes[code] // 8), code))
    if best == _GAPS:
        return bytes([low_bits << 2 | _GAPS]) + kernels.rice_encode(gaps, low_bits, bits)
    if best == _BITMAP:
        taken = np.zeros(places, dtype=np.uint8)
        taken[indices] = 1
        return bytes([_BITMAP]) + np.packbits(taken, bitorder="little").tobytes()
    return bytes([_INDICES]) + pack_numbers(indices, _width(places))


def decode_support(
    body: memoryview, count: int, places: int
) -> tuple[NDArray[np.int64] | None, int]:
    """Return ``count`` sorted indices below ``places``, and how many bytes of ``body`` they took.

    Where all places are taken there are no indices: what their number promises may be too much.

    Raises
    ------
    RemoteProtocolError
        If the bytes are no such support. Nothing is allocated beyond what the bytes can hold.
    """
    if not body:
        raise RemoteProtocolError("a sparse body is empty")
    code, low_bits = body[0] & 3, body[0] >> 2
    rest = np.frombuffer(body[1:], dtype=np.uint8)
    if code != _GAPS and low_bits:
        raise _wrong("it gives a parameter that its code does not have")
    if (code == _ALL) != (count == places):
        raise _wrong(f"it is not of {count} of {places} places")
    if code == _ALL:
        return None, 1
    if code == _GAPS:
        if count > 8 * len(rest) or low_bits > 48:
            raise _wrong(f"{len(rest)} bytes cannot hold {count} gaps")
        found = kernels.rice_decode(rest, low_bits, count, places)
        if found is None:
            raise _wrong("its gaps lead beyond the last place")
        indices, bits = found
    elif code == _BITMAP:
        bits = places
        if places > 8 * len(rest):
            raise _wrong(f"{len(rest)} bytes are no bitmap of {places} places")
        taken = np.unpackbits(rest[: -(-places // 8)], count=places, bitorder="little")
        indices = np.flatnonzero(taken)
        if len(indices) != count:
            raise _wrong(f"it takes {len(indices)} places in place of {count}")
    else:
        bits = count * _width(places)
        if bits > 8 * len(rest):
            raise _wrong(f"{len(rest)} bytes cannot hold {count} indices")
        indices = unpack_numbers(rest, _width(places), count)
        if indices[-1] >= places or (np.diff(indices) <= 0).any():
            raise _wrong("its indices are not in order")
    size = -(-bits // 8)
    if bits % 8 and rest[size - 1] >> bits % 8:
        raise _wrong("the bits that fill up its last byte are not zero")
    return indices, 1 + size


def support_bytes_at_most(count: int, places: int) -> int:
    """Return the largest number of bytes that the code of any such support takes."""
    if count == places:
        return 1
    return 1 + -(-min(places, count * _width(places)) // 8)


def _rice_size(gaps: NDArray[np.int64]) -> tuple[int, int]:
    """Return the bits of Rice's code with its best parameter, and the parameter."""
    guess = max(0, round(math.log2(max(1.0, 0.693 * (float(gaps.mean()) + 1)))))
    sizes = [
        (len(gaps) * (1 + low_bits) + int((gaps >> low_bits).sum()), low_bits)
        for low_bits in range(max(0, guess - 1), guess + 2)
    ]
    return min(sizes)


def _width(places: int) -> int:
    return (places - 1).bit_length()


def _wrong(why: str) -> RemoteProtocolError:
    return RemoteProtocolError(f"the support of a sparse body is wrong: {why}")
