"""Pictures in folders and in tar archives, as arrays of bytes.

Only PNG and JPEG are read, and nothing is unpacked to the disk. What a small file could blow up to
is bounded: Pillow refuses pictures of too many pixels, and members of an archive that are too
large are refused here.
"""

from __future__ import annotations

import gzip
import tarfile
import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from itertools import zip_longest
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from colonnade.errors import ConfigurationError, DataError
from colonnade.quiet import warning_otherwise

__all__ = [
    "Channels",
    "archive_members",
    "check_size",
    "decode",
    "in_turns",
    "is_picture",
    "pictures_of",
    "read_picture",
    "subfolders",
]

Channels: TypeAlias = Literal[1, 3]
"""1 for grey, 3 for red, green and blue."""

Item = TypeVar("Item")

_FORMATS = ("PNG", "JPEG")
_SUFFIXES = (".png", ".jpg", ".jpeg")
_MODES = {"1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr"}  # of 8 bits or fewer
_AT_ONCE = 2**20  # bytes
_LARGEST = 256 * 2**20  # bytes of a member of an archive


def is_picture(name: str) -> bool:
    """Tell by its name whether a file is a picture, and none that an operating system hid there.

    >>> is_picture("n01440764_10026.JPEG"), is_picture("._0001.png"), is_picture("labels.txt")
    (True, False, False)
    """
    return name.lower().endswith(_SUFFIXES) and not name.startswith(".")


def subfolders(folder: Path) -> list[Path]:
    """Return the folders in a folder, sorted by name.

    Raises
    ------
    DataError
        If there is no such folder.
    """
    return sorted(path for path in _listed(folder) if path.is_dir() and path.name[0] != ".")


def pictures_of(folder: Path) -> list[Path]:
    """Return the pictures in a folder, sorted by name.

    Raises
    ------
    DataError
        If there is no such folder, or no picture in it.
    """
    found = sorted(path for path in _listed(folder) if is_picture(path.name))
    if not found:
        raise DataError(f"{folder} holds no picture; expected {', '.join(_SUFFIXES)}")
    return found


def in_turns(classes: Sequence[Sequence[Item]]) -> list[tuple[int, Item]]:
    """Return (class, item) pairs in which classes take turns, so the first ones are a fair sample.

    >>> in_turns([["airplane 1", "airplane 2"], ["bird 1"]])
    [(0, 'airplane 1'), (1, 'bird 1'), (0, 'airplane 2')]
    """
    return [
        (label, item)
        for turn in zip_longest(*classes)
        for label, item in enumerate(turn)
        if item is not None
    ]


def archive_members(path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    """Yield the names and bytes of the wanted files of an archive, in its order.

    Parameters
    ----------
    path
        A ``.tar.gz``.
    wanted
        Told a file's name within the archive; what it refuses is passed over.

    Raises
    ------
    DataError
        If the archive cannot be read, is cut short or damaged, or a wanted file is too large.
    """
    try:
        with gzip.open(path) as unpacked, tarfile.open(fileobj=unpacked, mode="r:") as archive:
            for member in archive:
                if member.isfile() and wanted(member.name):
                    yield member.name, _body(path, archive, member)
            while unpacked.read(_AT_ONCE):  # to the end, where the checksum is
                pass
    except EOFError as error:
        raise DataError(f"{path}: the archive is cut short; fetch it again") from error
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path}: the archive is damaged ({error}); fetch it again") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error


def read_picture(path: Path, channels: Channels = 3, size: int | None = None) -> NDArray[np.uint8]:
    """Return the pixels of a file, as ``decode`` does.

    Raises
    ------
    DataError
        If the file cannot be read, or is not a picture that can be used.
    """
    try:
        body = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error
    return decode(str(path), body, channels, size)


def decode(
    where: str, body: bytes, channels: Channels = 3, size: int | None = None
) -> NDArray[np.uint8]:
    """Return the pixels of a PNG or JPEG picture, shape ``[channels, H, W]``.

    Parameters
    ----------
    where
        The file, for messages.
    body
        Its bytes.
    channels
        Colours are turned to grey, and grey to equal colours, where a picture has others. What is
        transparent is not made out: its colour counts.
    size
        If given, the largest square in the picture's middle is scaled to so many pixels each way,
        bilinearly.

    Raises
    ------
    DataError
        If the bytes are no such picture, are cut short or damaged, hold more than 8 bits for each
        channel, or so many pixels that Pillow suspects an attack.

    Examples
    --------
    >>> file = BytesIO()
    >>> Image.new("RGB", (6, 4), (250, 0, 10)).save(file, "PNG")
    >>> decode("red.png", file.getvalue(), size=2)[:, 0, 0]
    array([250,   0,  10], dtype=uint8)
    """
    mode = "RGB" if channels == 3 else "L"
    try:
        with warning_otherwise():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(BytesIO(body), formats=_FORMATS) as image:
                if image.mode not in _MODES:
                    raise DataError(
                        f"{where}: has pixels of the kind {image.mode}; expected 8 bits for each "
                        "channel"
                    )
                picture: Image.Image = image.convert(mode)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise DataError(f"{where}: has too many pixels to be read safely ({error})") from error
    except DataError:
        raise
    except Exception as error:  # a damaged picture can end its reader in many ways
        raise DataError(f"{where}: is not a PNG or JPEG picture, or damaged ({error})") from error
    if size is not None:
        picture = _square(picture).resize((size, size), Image.Resampling.BILINEAR)
    pixels = np.asarray(picture, dtype=np.uint8).reshape(picture.height, picture.width, channels)
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))


def check_size(size: int, channels: int) -> None:
    """Raise ``ConfigurationError`` if pictures cannot be of that size, or have so many channels.

    >>> check_size(64, 2)
    Traceback (most recent call last):
    ...
    colonnade.errors.ConfigurationError: channels must be 1 for grey or 3 for colours, not 2
    """
    if size < 1:
        raise ConfigurationError(f"size must be 1 pixel or more, not {size}")
    if channels not in (1, 3):
        raise ConfigurationError(f"channels must be 1 for grey or 3 for colours, not {channels}")


def _square(picture: Image.Image) -> Image.Image:
    """Return the largest square in the middle."""
    side = min(picture.size)
    left, top = (picture.width - side) // 2, (picture.height - side) // 2
    return picture.crop((left, top, left + side, top + side))


def _body(path: Path, archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    if member.size > _LARGEST:
        raise DataError(
            f"{path}: {member.name} has {member.size} bytes; expected {_LARGEST} at most"
        )
    file = archive.extractfile(member)
    assert file is not None  # what is a file can be read
    return file.read()


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError as error:
        raise DataError(f"{folder}: cannot be read ({error.strerror or error})") from error
