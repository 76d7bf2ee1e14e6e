"""The idx format of MNIST and its relatives, read strictly.

::

    bytes 0-1   zero
    byte  2     the type of a value, see ``TYPES``
    byte  3     the number of dimensions, D
    4 D bytes   the dimensions, each an unsigned 32-bit integer, most significant byte first
    the rest    the values, most significant byte first, the last dimension running fastest

A file that is one byte too short or too long is refused. The header may promise up to
2^32 x 2^32 x ... values, so no memory is taken before the promise is held against the size of the
file. The size of a ``.gz`` file bounds what it can hold as well, since deflate shrinks at most
1032 to 1 (zlib, "Technical Details"); and no more is unpacked than promised, plus the one byte
that tells whether there is more.
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from colonnade.errors import DataError
from colonnade.paths import as_path

__all__ = ["TYPES", "read_idx"]

TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
"""Third byte of the file -> the type of a value, as numpy writes it."""

_DEFLATE_AT_MOST = 1032
_DIMENSIONS_AT_MOST = 64  # as many as a numpy array can have


def read_idx(path: str | Path) -> NDArray[Any]:
    """Read a plain or, if its name ends in ``.gz``, a gzip-compressed idx file.

    Returns
    -------
    numpy.ndarray
        The shape and the type that the header names, in the machine's byte order, writable.

    Raises
    ------
    ConfigurationError
        If this is no path.
    DataError
        If the file cannot be read, is not idx, is shorter or longer than its header says, holds
        no value, or fails gzip's checksum. The message names the file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "labels-idx1-ubyte")
    ...     _ = path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3, 5, 0, 4]))
    ...     read_idx(path)
    array([5, 0, 4], dtype=uint8)
    """
    path = as_path("an idx file is read from its path", path)
    compressed = path.suffix == ".gz"
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            if not compressed:
                return _parse(path, file, most=size)
            with gzip.GzipFile(fileobj=file) as unpacked:
                return _parse(path, cast(BinaryIO, unpacked), most=size * _DEFLATE_AT_MOST)
    except EOFError as error:
        raise DataError(f"{path}: the gzip file is cut short; fetch it again") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path}: the gzip file is damaged ({error}); fetch it again") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error


def _parse(path: Path, file: BinaryIO, most: int) -> NDArray[Any]:
    magic = _exactly(path, file, 4, "magic number")
    kind = TYPES.get(magic[2])
    if magic[:2] != b"\0\0" or kind is None or not 1 <= magic[3] <= _DIMENSIONS_AT_MOST:
        raise DataError(
            f"{path}: not an idx file: it begins with the bytes {magic.hex(' ')}; expected two "
            "zeros, a type and a number of dimensions"
        )
    dimensions = struct.unpack(f">{magic[3]}I", _exactly(path, file, 4 * magic[3], "dimensions"))
    shape = " x ".join(map(str, dimensions))
    dtype = np.dtype(kind)
    promised = math.prod(dimensions) * dtype.itemsize
    if promised == 0:
        raise DataError(f"{path}: holds no value: its dimensions are {shape}")
    if promised > most:
        raise DataError(
            f"{path}: {shape} values are {promised} bytes, which a file of this size cannot hold; "
            "it is cut short or damaged"
        )
    body = file.read(promised + 1)
    if len(body) != promised:
        found = f"only {len(body)}" if len(body) < promised else "more"
        raise DataError(f"{path}: {shape} values are {promised} bytes, but {found} follow")
    values = np.frombuffer(body, dtype).reshape(dimensions)
    return values.astype(dtype.newbyteorder("="))


def _exactly(path: Path, file: BinaryIO, size: int, what: str) -> bytes:
    found = file.read(size)
    if len(found) != size:
        raise DataError(
            f"{path}: not an idx file: ends within its {what}, after {len(found)} of {size} bytes"
        )
    return found
