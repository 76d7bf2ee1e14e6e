"""CIFAR-10 and CIFAR-100: small colour pictures, from the binary distribution or from pictures.

Krizhevsky, "Learning multiple layers of features from tiny images", 2009;
cs.toronto.edu/~kriz/cifar.html. The binary distribution is a run of records of the same size:

::

    CIFAR-10    1 byte   the class, 0 to 9
    CIFAR-100   2 bytes  the coarse class, 0 to 19, and the fine one, 0 to 99
    both        3072     the pixels: 32 x 32 of red, then of green, then of blue

There are five times as many records to train on as to test on. (The Python distribution is made
of pickles, which can run any program when they are read; it is not read.)

Folders of pictures, ``train/<class>/`` and ``test/<class>/``, are read as well, plain or in a
``.tar.gz``. The official classes are in alphabetical order, and so are these.

The binary distribution was read from generated files of that format only; pictures, from all 60000
of CIFAR-10.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from colonnade.datasets.dataset import VerticalDataset
from colonnade.datasets.files import data_folder
from colonnade.datasets.mnist import from_images
from colonnade.datasets.partition import PartitionName
from colonnade.datasets.pictures import (
    archive_members,
    decode,
    in_turns,
    is_picture,
    pictures_of,
    read_picture,
    subfolders,
)
from colonnade.datasets.pixels import Normalise, check_normalise
from colonnade.errors import ConfigurationError, DataError

__all__ = ["cifar10", "cifar10_files", "cifar100", "cifar100_files"]

_SHAPE = (3, 32, 32)
_PIXELS = math.prod(_SHAPE)
_TRAIN_FOR_EACH_TEST = 5
_SPLITS = ("train", "test")


@dataclass(frozen=True)
class _Source:
    """How the files of one data set are named, and what is in them."""

    name: str
    train: tuple[str, ...]
    test: str
    subfolder: str
    archive: str
    pictures: str  # how a folder or an archive of pictures begins
    label_names: tuple[str, ...]  # of each byte before the pixels
    classes: tuple[int, ...]  # of each byte before the pixels
    first: str  # the first class

    @property
    def files(self) -> tuple[str, ...]:
        """The files of the binary distribution."""
        return (*self.train, self.test)


_CIFAR10 = _Source(
    name="CIFAR-10",
    train=tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
    test="test_batch.bin",
    subfolder="cifar-10-batches-bin",
    archive="cifar-10-binary.tar.gz",
    pictures="cifar10",
    label_names=("class",),
    classes=(10,),
    first="airplane",
)
_CIFAR100 = _Source(
    name="CIFAR-100",
    train=("train.bin",),
    test="test.bin",
    subfolder="cifar-100-binary",
    archive="cifar-100-binary.tar.gz",
    pictures="cifar100",
    label_names=("coarse class", "fine class"),
    classes=(20, 100),
    first="apple",
)


def cifar10(
    folder: str | Path | None = None,
    *,
    partition: PartitionName = "quadrants",
    parties: int = 4,
    flatten: bool = False,
    normalise: Normalise | None = None,
) -> VerticalDataset:
    """Load CIFAR-10: 50000 pictures to train on and 10000 to test on, of ten things.

    Parameters
    ----------
    folder
        Where one of these is: ``data_batch_1.bin`` to ``data_batch_5.bin`` and ``test_batch.bin``,
        in the folder or in its subfolder ``cifar-10-batches-bin``; ``cifar-10-binary.tar.gz``, not
        unpacked; or pictures of 32 x 32 pixels in ``train/<class>/`` and ``test/<class>/``, in the
        folder, in one whose name begins with ``cifar10``, or in a ``.tar.gz`` whose name does. By
        default the folder that the environment variable ``COLONNADE_DATA`` names.
    partition, parties
        Who sees which pixels: ``"quadrants"`` of 4 parties, or vertical ``"strips"`` of up to 32.
    flatten
        Whether a party's features have the shape ``[N, values]`` or ``[N, 3, height, width]``.
    normalise
        Pixels are scaled to [0, 1]; if a mean and a standard deviation on that scale are given,
        such as ``((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616))``, the former is then
        subtracted and the latter divided by. Each is one number, or one for each colour.

    Returns
    -------
    VerticalDataset
        The training rows first. Binary files are in their own order; of pictures, sorted by name,
        the classes take turns, so the first ones of any number are a fair sample.

    Raises
    ------
    DataError
        If there is no folder, a file is missing, or a file does not hold what it should.
    ConfigurationError
        If the partition or the normalisation cannot be.

    Examples
    --------
    ::

        dataset = cifar10("data")
        dataset.features["party_1"].shape  # [60000, 3, 16, 16]
    """
    return _load(_CIFAR10, folder, 0, partition, parties, flatten, normalise)


def cifar100(
    folder: str | Path | None = None,
    *,
    labels: Literal["fine", "coarse"] = "fine",
    partition: PartitionName = "quadrants",
    parties: int = 4,
    flatten: bool = False,
    normalise: Normalise | None = None,
) -> VerticalDataset:
    """Load CIFAR-100: 50000 pictures to train on and 10000 to test on, of a hundred things.

    Parameters
    ----------
    folder
        As for ``cifar10``, but ``train.bin`` and ``test.bin``, the subfolder ``cifar-100-binary``,
        ``cifar-100-binary.tar.gz``, and names that begin with ``cifar100``.
    labels
        The 100 ``"fine"`` classes, or the 20 ``"coarse"`` ones, which only the binary files name.
    partition, parties, flatten
        As for ``cifar10``.
    normalise
        As for ``cifar10``, such as ``((0.5071, 0.4867, 0.4408), (0.2675, 0.2565, 0.2761))``.

    Returns
    -------
    VerticalDataset
        As from ``cifar10``.

    Raises
    ------
    DataError
        If there is no folder, a file is missing, or a file does not hold what it should.
    ConfigurationError
        If the labels, the partition or the normalisation cannot be.

    Examples
    --------
    ::

        dataset = cifar100("data", labels="coarse")
        dataset  # VerticalDataset('CIFAR-100', 4 parties, 50000 + 10000 rows, 20 classes)
    """
    if labels not in ("fine", "coarse"):
        raise ConfigurationError(f"labels must be 'fine' or 'coarse', not {labels!r}")
    byte = 1 if labels == "fine" else 0
    return _load(_CIFAR100, folder, byte, partition, parties, flatten, normalise)


def cifar10_files(folder: str | Path | None = None) -> list[Path]:
    """Return what ``cifar10`` would read: six files, an archive, or a folder of pictures.

    Raises
    ------
    DataError
        If there is no folder, or nothing of these is in it.
    """
    return _files(_CIFAR10, folder)


def cifar100_files(folder: str | Path | None = None) -> list[Path]:
    """Return what ``cifar100`` would read: two files, an archive, or a folder of pictures.

    Raises
    ------
    DataError
        If there is no folder, or nothing of these is in it.
    """
    return _files(_CIFAR100, folder)


def _files(source: _Source, folder: str | Path | None) -> list[Path]:
    root = data_folder(source.name, folder)
    for place in (root / source.subfolder, root):
        missing = [name for name in source.files if not (place / name).is_file()]
        if not missing:
            return [place / name for name in source.files]
        if len(missing) < len(source.files):
            raise DataError(
                f"{place} has files of {source.name}, but not {', '.join(missing)}; unpack "
                f"{source.archive} there once more"
            )
    if (root / source.archive).is_file():
        return [root / source.archive]
    # Not CIFAR-100's: another number must not follow.
    called = [*root.glob(source.pictures), *root.glob(f"{source.pictures}[!0-9]*")]
    for place in (root, *sorted(called)):
        if all((place / split / source.first).is_dir() for split in _SPLITS):
            return [place]
        if place.name.endswith(".tar.gz") and place.is_file():
            return [place]
    raise DataError(
        f"expected {source.archive} or {source.train[0]} in {root}, which has neither, nor "
        f"pictures in {source.pictures}/train/{source.first}: put the binary version of "
        f"{source.name} there, or name another folder with --data or COLONNADE_DATA"
    )


def _load(
    source: _Source,
    folder: str | Path | None,
    byte: int,
    partition: PartitionName,
    parties: int,
    flatten: bool,
    normalise: Normalise | None,
) -> VerticalDataset:
    check_normalise(normalise, channels=_SHAPE[0])
    paths = _files(source, folder)
    if len(paths) > 1 or paths[0].name == source.archive:
        images, labels, train = _from_records(source, paths, byte)
        notes = "official binary files; official training and test split"
    else:
        images, labels, train = _from_pictures(source, paths[0], byte)
        notes = (
            f"pictures in {paths[0].name}; if they are JPEG, pixels differ from the official ones "
            "and results are not comparable to published ones"
        )
    order = np.arange(len(labels), dtype=np.int64)
    return from_images(
        source.name,
        images,
        labels,
        train=order[:train],
        test=order[train:],
        partition=partition,
        parties=parties,
        flatten=flatten,
        normalise=normalise,
        notes=notes,
        classes=source.classes[byte],
    )


def _from_records(
    source: _Source, paths: list[Path], byte: int
) -> tuple[NDArray[np.uint8], NDArray[np.int64], int]:
    """Return images, labels, and how many are to train on."""
    if len(paths) == 1:
        bodies = _unpacked(source, paths[0])
    else:
        bodies = {str(path): _body(path) for path in paths}
    records = [_records(source, where, body) for where, body in bodies.items()]
    train, test = sum(map(len, records[:-1])), len(records[-1])
    if train != _TRAIN_FOR_EACH_TEST * test:
        raise DataError(
            f"{paths[0].parent}: {train} pictures of {source.name} to train on and {test} to test "
            f"on; expected {_TRAIN_FOR_EACH_TEST} times as many, so fetch the files again"
        )
    found = np.concatenate(records)
    images = found[:, len(source.classes) :].reshape(-1, *_SHAPE)
    return images, found[:, byte].astype(np.int64), train


def _body(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error


def _unpacked(source: _Source, path: Path) -> dict[str, bytes]:
    """Return the binary files in an archive, by the names that messages call them."""
    bodies: dict[str, bytes] = {}
    for name, body in archive_members(path, lambda name: PurePosixPath(name).name in source.files):
        bodies[PurePosixPath(name).name] = body
    missing = [name for name in source.files if name not in bodies]
    if missing:
        raise DataError(f"{path} does not hold {', '.join(missing)}; fetch it again")
    return {f"{path}: {name}": bodies[name] for name in source.files}


def _records(source: _Source, where: str, body: bytes) -> NDArray[np.uint8]:
    """Return the records of a file, ``[N, labels + pixels]``."""
    size = len(source.classes) + _PIXELS
    if not body or len(body) % size:
        raise DataError(
            f"{where}: {len(body)} bytes, which are not a whole number of records of {size} bytes; "
            f"expected a file of the binary version of {source.name}, neither cut short nor packed"
        )
    records = np.frombuffer(body, np.uint8).reshape(-1, size)
    for byte, (name, classes) in enumerate(zip(source.label_names, source.classes, strict=True)):
        if records[:, byte].max() >= classes:
            row = int(np.argmax(records[:, byte] >= classes))
            raise DataError(
                f"{where}: the {name} of record {row} is {records[row, byte]}; expected 0 to "
                f"{classes - 1}"
            )
    return records


def _from_pictures(
    source: _Source, place: Path, byte: int
) -> tuple[NDArray[np.uint8], NDArray[np.int64], int]:
    """Return images, labels, and how many are to train on."""
    if source.label_names[byte] == "coarse class":
        raise ConfigurationError(
            f"{place} holds pictures by their fine class; set labels to 'fine', or get the binary "
            f"version of {source.name}"
        )
    arrays = _in_folders(place) if place.is_dir() else _in_archive(place)
    parts = [_by_class(source, place, split, list(arrays)) for split in _SPLITS]
    rows = [in_turns(part) for part in parts]
    images = np.stack([arrays[path] for part in rows for _, path in part])
    labels = np.array([label for part in rows for label, _ in part], dtype=np.int64)
    return images, labels, len(rows[0])


def _in_folders(place: Path) -> dict[Path, NDArray[np.uint8]]:
    """Return the pixels of all pictures by their names <split>/<class>/<file>."""
    return {
        path.relative_to(place): _of_right_size(str(path), read_picture(path))
        for split in _SPLITS
        for folder in subfolders(place / split)
        for path in pictures_of(folder)
    }


def _in_archive(place: Path) -> dict[Path, NDArray[np.uint8]]:
    """Return the same of the pictures in an archive, whatever folder they are in there."""

    def wanted(name: str) -> bool:
        parts = PurePosixPath(name).parts
        return len(parts) >= 3 and parts[-3] in _SPLITS and is_picture(parts[-1])

    return {
        Path(*PurePosixPath(name).parts[-3:]): _of_right_size(
            f"{place}: {name}", decode(f"{place}: {name}", body)
        )
        for name, body in archive_members(place, wanted)
    }


def _of_right_size(where: str, pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    if pixels.shape != _SHAPE:
        raise DataError(
            f"{where}: a picture of {pixels.shape[2]} x {pixels.shape[1]} pixels; expected "
            f"{_SHAPE[2]} x {_SHAPE[1]}"
        )
    return pixels


def _by_class(source: _Source, place: Path, split: str, names: list[Path]) -> list[list[Path]]:
    """Return the names of one split's pictures, sorted, for each class in alphabetical order."""
    classes: dict[str, list[Path]] = {}
    for name in sorted(names):
        if name.parts[0] == split:
            classes.setdefault(name.parts[1], []).append(name)
    if len(classes) != source.classes[-1] or next(iter(classes)) != source.first:
        raise DataError(
            f"{place}: pictures of {len(classes)} classes in {split}; expected the "
            f"{source.classes[-1]} of {source.name}, each in a folder of its name"
        )
    return list(classes.values())
