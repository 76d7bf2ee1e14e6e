"""Data sets of pictures: tiny files in each official format give the pixels that were written."""

from __future__ import annotations

import gzip
import io
import os
import re
import struct
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from colonnade.datasets import (
    CATALOGUE,
    VerticalDataset,
    available,
    cifar10,
    cifar100,
    emnist,
    imagenet,
    modelnet10,
)
from colonnade.datasets.mnist import from_images
from colonnade.datasets.modelnet import MODELNET10_CLASSES
from colonnade.datasets.pictures import archive_members, decode, pictures_of, read_picture
from colonnade.datasets.pixels import as_floats
from colonnade.errors import ConfigurationError, DataError

CIFAR10_CLASSES = (
    *("airplane", "automobile", "bird", "cat", "deer"),
    *("dog", "frog", "horse", "ship", "truck"),
)
BLUE, BROWN = ("airplane", "ship"), ("deer", "frog")
RECORD10, RECORD100 = 1 + 3072, 2 + 3072


@pytest.fixture(autouse=True)
def _no_data_folder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.node.get_closest_marker("data"):
        monkeypatch.delenv("COLONNADE_DATA", raising=False)


def noise(*shape: int, seed: int = 0) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def png(pixels: NDArray[np.uint8]) -> bytes:
    """Return the file of a picture [C, H, W] or [H, W]."""
    file = io.BytesIO()
    Image.fromarray(pixels.transpose(1, 2, 0) if pixels.ndim == 3 else pixels).save(file, "PNG")
    return file.getvalue()


def write(path: Path, body: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(body)
    return path


def tar_gz(files: dict[str, bytes]) -> bytes:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        for name, body in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(body)
            archive.addfile(member, io.BytesIO(body))
    return gzip.compress(plain.getvalue(), mtime=0)


def outcome(read: Callable[[], Any]) -> Any:
    """Return what is read, or why not."""
    try:
        return read()
    except DataError as error:
        return str(error)


def whole(dataset: VerticalDataset) -> Tensor:
    """Put the quadrants of a data set together again, as bytes."""
    a, b, c, d = dataset.features.values()
    pixels = torch.cat([torch.cat([a, b], -1), torch.cat([c, d], -1)], -2)
    return (pixels * 255).round().to(torch.uint8)


# --- pictures ---------------------------------------------------------------------------------


@pytest.mark.parametrize("channels", [1, 3])
def test_a_picture_gives_back_what_was_written(channels: int) -> None:
    pixels = noise(*([3] if channels == 3 else []), 5, 7)
    found = decode("x", png(pixels), channels)  # type: ignore[arg-type]
    np.testing.assert_array_equal(found, pixels.reshape(channels, 5, 7))
    assert found.dtype == np.uint8
    assert found.flags.c_contiguous


def test_grey_becomes_equal_colours_and_colours_become_grey() -> None:
    grey = noise(4, 4)
    np.testing.assert_array_equal(decode("x", png(grey), 3), np.stack([grey] * 3))
    (found,) = decode("x", png(np.stack([grey] * 3)), 1)
    np.testing.assert_array_equal(found, grey)


@pytest.mark.parametrize("mode", ["1", "P", "RGBA", "LA"])
def test_kinds_of_pixels_that_are_converted(mode: str) -> None:
    file = io.BytesIO()
    Image.new("RGB", (3, 2), (255, 255, 255)).convert(mode).save(file, "PNG")
    assert decode("x", file.getvalue()).tolist() == np.full((3, 2, 3), 255).tolist()


def test_a_jpeg_of_four_inks_is_read() -> None:
    file = io.BytesIO()
    Image.new("CMYK", (8, 8), (0, 255, 255, 0)).save(file, "JPEG")
    red, green, blue = decode("x", file.getvalue()).mean((1, 2))
    assert red > 200
    assert max(green, blue) < 60


def test_sixteen_bits_are_refused_and_not_cut_off() -> None:
    file = io.BytesIO()
    Image.fromarray(noise(4, 4).astype(np.uint16) * 256).save(file, "PNG")
    with pytest.raises(DataError, match=r"deep\.png: has pixels of the kind I;16"):
        decode("deep.png", file.getvalue())


def test_scaling_takes_the_square_in_the_middle() -> None:
    pixels = np.zeros((3, 4, 8), np.uint8)
    pixels[0, :, 2:6] = 200
    found = decode("x", png(pixels), size=2)
    assert found.shape == (3, 2, 2)
    assert (found[0] == 200).all()
    assert not found[1:].any()
    assert decode("x", png(noise(3, 5, 9)), size=16).shape == (3, 16, 16)


def test_a_picture_of_its_size_is_not_changed() -> None:
    pixels = noise(3, 6, 6)
    np.testing.assert_array_equal(decode("x", png(pixels), size=6), pixels)


@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_a_picture_cut_short_is_refused_or_has_all_pixels(kind: str) -> None:
    file = io.BytesIO()
    Image.fromarray(noise(16, 16)).save(file, kind)
    body = file.getvalue()
    right = decode("x", body)
    for size in range(len(body)):
        found = outcome(lambda size=size: decode("cut.file", body[:size]))  # type: ignore[misc]
        if isinstance(found, str):
            assert found.startswith("cut.file: is not a PNG or JPEG picture")
        else:
            assert size >= len(body) - 20  # checksums, and that it ends
            np.testing.assert_array_equal(found, right)


@settings(max_examples=200)
@given(place=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_a_wrong_byte_is_refused_or_harmless(place: int, byte: int) -> None:
    body = bytearray(png(noise(6, 6)))
    body[place % len(body)] = byte
    found = outcome(lambda: decode("x", bytes(body), 1))
    assert found.startswith("x: ") if isinstance(found, str) else found.dtype == np.uint8


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


@pytest.mark.parametrize("side", [10_000, 60_000])
def test_a_small_file_of_very_many_pixels_is_refused(side: int) -> None:
    header = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    data = zlib.compress(b"")
    body = (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")
    )
    with pytest.raises(DataError, match=r"bomb\.png: has too many pixels to be read safely"):
        decode("bomb.png", body)


@pytest.mark.parametrize("body", [b"", b"GIF89a", b"P6\n1 1\n255\n\0\0\0", b"%!PS-Adobe-3.0 EPSF"])
def test_other_formats_are_not_tried(body: bytes) -> None:
    with pytest.raises(DataError, match="is not a PNG or JPEG picture"):
        decode("x", body)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no\.png: cannot be read \(No such file"):
        read_picture(tmp_path / "no.png")


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere: cannot be read \(No such file"):
        pictures_of(tmp_path / "nowhere")


# --- archives ---------------------------------------------------------------------------------


def members(path: Path) -> dict[str, bytes]:
    return dict(archive_members(path, lambda name: name.endswith(".png")))


def test_only_files_that_are_wanted_are_given(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tar.gz", tar_gz({"b.png": b"two", "x.txt": b"-", "a.png": b"one"}))
    assert list(members(path).items()) == [("b.png", b"two"), ("a.png", b"one")]


def test_links_and_folders_in_an_archive_are_passed_over(tmp_path: Path) -> None:
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE):
            member = tarfile.TarInfo(f"{kind!r}.png")
            member.type, member.linkname = kind, "/etc/hostname"
            archive.addfile(member)
    assert members(write(tmp_path / "a.tar.gz", gzip.compress(plain.getvalue()))) == {}


def test_nothing_of_an_archive_reaches_the_disk(tmp_path: Path) -> None:
    path = write(tmp_path / "in" / "a.tar.gz", tar_gz({"../../out.png": b"x", "/out.png": b"y"}))
    assert list(members(path)) == ["../../out.png", "/out.png"]
    assert sorted(tmp_path.rglob("*")) == [path.parent, path]


def test_a_member_of_a_promised_size_takes_no_memory(tmp_path: Path) -> None:
    member = tarfile.TarInfo("big.png")
    member.size = 2**40
    path = write(tmp_path / "a.tar.gz", gzip.compress(member.tobuf()))
    with pytest.raises(DataError, match=r"a\.tar\.gz: big\.png has 1099511627776 bytes; expected"):
        members(path)


def test_an_archive_cut_short_is_refused_wherever(tmp_path: Path) -> None:
    body = tar_gz({"a.png": noise(3000).tobytes(), "b.png": noise(700).tobytes()})
    path = tmp_path / "a.tar.gz"
    for size in (*range(0, len(body), 97), len(body) - 1):
        path.write_bytes(body[:size])
        with pytest.raises(DataError, match=re.escape(str(path))):
            members(path)


def test_a_wrong_byte_in_an_archive_is_refused_or_harmless(tmp_path: Path) -> None:
    right = {"a.png": noise(300).tobytes(), "b.png": b"end"}
    body = tar_gz(right)
    path = tmp_path / "a.tar.gz"
    for place in range(0, len(body), 3):
        path.write_bytes(body[:place] + bytes([body[place] ^ 0x41]) + body[place + 1 :])
        found = outcome(lambda: members(path))
        assert str(path) in found if isinstance(found, str) else found == right


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    for body in (b"", b"text", gzip.compress(b"text"), gzip.compress(b"")):
        with pytest.raises(DataError, match="fetch it again"):
            members(write(tmp_path / "a.tar.gz", body))
    with pytest.raises(DataError, match="cannot be read"):
        members(tmp_path / "no.tar.gz")


# --- numbers ----------------------------------------------------------------------------------


def test_colours_have_a_mean_and_a_deviation_each() -> None:
    pixels = torch.from_numpy(noise(2, 3, 4, 5))
    mean, deviation = (0.1, 0.2, 0.3), (1.0, 2.0, 4.0)
    found = as_floats(pixels, (mean, deviation))
    for channel in range(3):
        by_hand = (pixels[:, channel].double() / 255 - mean[channel]) / deviation[channel]
        torch.testing.assert_close(found[:, channel].double(), by_hand, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(as_floats(pixels, ([0.1] * 3, 2.0)), as_floats(pixels, (0.1, 2.0)))


@pytest.mark.parametrize(
    "normalise",
    [(0.1, 0.0), (0.1, -1.0), (float("nan"), 1.0), (0.0, float("inf")), ((0.1, 0.2), 1.0), ((), 1)],
)
def test_a_normalisation_that_cannot_be_is_refused_before_anything_is_read(
    tmp_path: Path, normalise: Any
) -> None:
    for load in (cifar10, cifar100, modelnet10, imagenet, emnist):
        with pytest.raises(ConfigurationError, match="a mean and a positive standard deviation"):
            load(tmp_path, normalise=normalise)


def test_images_of_any_number_of_classes_and_channels() -> None:
    images = noise(3, 2, 4, 4)
    dataset = from_images(
        *("two channels", images, np.array([0, 46, 3]), np.array([0]), np.array([1, 2])),
        partition="strips",
        parties=2,
        flatten=True,
        normalise=None,
        notes="",
        classes=47,
    )
    assert dataset.classes == 47
    assert torch.equal(
        (dataset.features["party_1"] * 255).round().to(torch.uint8),
        torch.from_numpy(images[..., :2]).flatten(1),
    )


def test_one_mean_and_deviation_are_exact() -> None:
    """Numbers for each channel change no bit for those who give one of each."""
    pixels = torch.from_numpy(noise(9, 1, 28, 28))
    expected = pixels.float().div(255).sub(0.1307).div(0.3081)
    assert torch.equal(as_floats(pixels, (0.1307, 0.3081)), expected)


# --- EMNIST -----------------------------------------------------------------------------------


def idx(values: NDArray[np.uint8]) -> bytes:
    return (
        bytes([0, 0, 8, values.ndim])
        + struct.pack(f">{values.ndim}I", *values.shape)
        + (values.tobytes())
    )


def write_emnist(
    folder: Path, split: str, labels: list[int], suffix: str = ".gz", size: int = 6
) -> NDArray[np.uint8]:
    """Write the four files, all but the last two rows to train on; return upright images."""
    upright = noise(len(labels), size, size)
    stored = np.ascontiguousarray(upright.transpose(0, 2, 1))
    for part, rows in (("train", slice(None, -2)), ("test", slice(-2, None))):
        for kind, values in (
            ("images-idx3", stored[rows]),
            ("labels-idx1", np.array(labels, np.uint8)[rows]),
        ):
            body = idx(values)
            name = f"emnist-{split}-{part}-{kind}-ubyte{suffix}"
            write(folder / name, gzip.compress(body) if suffix else body)
    return upright


@pytest.mark.parametrize("place", ["", "emnist", "gzip", "emnist/gzip"])
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_emnist_is_upright_wherever_it_is(tmp_path: Path, place: str, suffix: str) -> None:
    upright = write_emnist(tmp_path / place, "balanced", [46, 0, 10, 45, 1], suffix)
    dataset = emnist(tmp_path, flatten=False)
    assert repr(dataset) == "VerticalDataset('EMNIST balanced', 4 parties, 3 + 2 rows, 47 classes)"
    assert torch.equal(whole(dataset)[:, 0], torch.from_numpy(upright))
    assert dataset.labels.tolist() == [46, 0, 10, 45, 1]
    assert available("emnist", tmp_path) is None


def test_letters_begin_at_zero(tmp_path: Path) -> None:
    write_emnist(tmp_path, "letters", [1, 26, 2, 3])
    dataset = emnist(tmp_path, split="letters", partition="strips", parties=6)
    assert dataset.labels.tolist() == [0, 25, 1, 2]
    assert dataset.classes == 26
    assert dataset.features["party_6"].shape == (4, 6)


@pytest.mark.parametrize(
    ("split", "classes"), [("byclass", 62), ("bymerge", 47), ("digits", 10), ("mnist", 10)]
)
def test_each_split_has_its_classes(tmp_path: Path, split: Any, classes: int) -> None:
    write_emnist(tmp_path, split, [0, classes - 1, 1, 2])
    assert emnist(tmp_path, split=split).classes == classes
    write_emnist(tmp_path, split, [0, classes, 1, 2])
    with pytest.raises(DataError, match=rf"label 1 is {classes}; expected 0 to {classes - 1}"):
        emnist(tmp_path, split=split)


@pytest.mark.parametrize("label", [0, 27])
def test_a_letter_that_is_none_is_refused(tmp_path: Path, label: int) -> None:
    write_emnist(tmp_path, "letters", [1, 2, label, 3])
    with pytest.raises(DataError, match=rf"label 0 is {label}; expected 1 to 26"):
        emnist(tmp_path, split="letters")


def test_what_is_missing_of_emnist_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected emnist-digits-train-images-idx3-ubyte and its"):
        emnist(tmp_path, split="digits")
    write_emnist(tmp_path, "digits", [1, 2, 3, 4])
    (tmp_path / "emnist-digits-test-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(DataError, match="but not emnist-digits-test-labels-idx1-ubyte; put all"):
        emnist(tmp_path, split="digits")
    with pytest.raises(ConfigurationError, match="no split 'latin' of EMNIST; expected one of"):
        emnist(tmp_path, split="latin")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="EMNIST is read from a folder, and none was given"):
        emnist()


def test_emnist_of_two_sources_is_refused(tmp_path: Path) -> None:
    write_emnist(tmp_path, "digits", [1, 2, 3, 4])
    images = gzip.compress(idx(noise(2, 7, 6)))
    write(tmp_path / "emnist-digits-test-images-idx3-ubyte.gz", images)
    with pytest.raises(DataError, match="images of 6 x 7 pixels, but those to train on have 6 x 6"):
        emnist(tmp_path, split="digits")


# --- CIFAR, binary ----------------------------------------------------------------------------


def cifar10_files(rows: int = 2, seed: int = 0) -> dict[str, bytes]:
    """Make the six files of the binary version of CIFAR-10, of so many records each."""
    names = [*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"]
    records = noise(6, rows, RECORD10, seed=seed)
    records[..., 0] %= 10
    return {name: records[i].tobytes() for i, name in enumerate(names)}


def cifar100_files() -> dict[str, bytes]:
    records = noise(12, RECORD100)
    records[:, 0] %= 20
    records[:, 1] %= 100
    return {"train.bin": records[:10].tobytes(), "test.bin": records[10:].tobytes()}


def put(folder: Path, files: dict[str, bytes]) -> Path:
    for name, body in files.items():
        write(folder / name, body)
    return folder


@pytest.mark.parametrize("place", ["", "cifar-10-batches-bin", "packed"])
def test_cifar10_is_what_was_written_wherever_it_is(tmp_path: Path, place: str) -> None:
    files = cifar10_files()
    if place == "packed":
        inside = {f"cifar-10-batches-bin/{name}": body for name, body in reversed(files.items())}
        body = tar_gz(inside | {"cifar-10-batches-bin/batches.meta.txt": b"airplane\n"})
        write(tmp_path / "cifar-10-binary.tar.gz", body)
    else:
        put(tmp_path / place, files)
    records = np.array(list(b"".join(files.values())), np.uint8).reshape(12, RECORD10)
    dataset = cifar10(tmp_path)
    assert repr(dataset) == "VerticalDataset('CIFAR-10', 4 parties, 10 + 2 rows, 10 classes)"
    assert {x.shape for x in dataset.features.values()} == {(12, 3, 16, 16)}
    assert dataset.labels.tolist() == records[:, 0].tolist()
    assert torch.equal(whole(dataset), torch.from_numpy(records[:, 1:].reshape(12, 3, 32, 32)))
    assert dataset.notes.startswith("official binary files")
    assert available("cifar10", tmp_path) is None


def test_flat_strips_of_cifar10(tmp_path: Path) -> None:
    put(tmp_path, cifar10_files())
    pictures = cifar10(tmp_path, partition="strips", parties=3)
    flat = cifar10(tmp_path, partition="strips", parties=3, flatten=True, normalise=(0.5, 0.5))
    for party, x in pictures.features.items():
        torch.testing.assert_close(flat.features[party], (x.flatten(1) - 0.5) / 0.5)
    assert [x.shape[1] for x in flat.features.values()] == [3 * 32 * 11] * 2 + [3 * 32 * 10]


@pytest.mark.parametrize("place", ["", "cifar-100-binary", "packed"])
@pytest.mark.parametrize(("labels", "byte", "classes"), [("coarse", 0, 20), ("fine", 1, 100)])
def test_cifar100_has_two_labels(
    tmp_path: Path, place: str, labels: Any, byte: int, classes: int
) -> None:
    files = cifar100_files()
    if place == "packed":
        inside = {f"cifar-100-binary/{name}": body for name, body in files.items()}
        write(tmp_path / "cifar-100-binary.tar.gz", tar_gz(inside))
    else:
        put(tmp_path / place, files)
    records = np.array(list(b"".join(files.values())), np.uint8).reshape(12, RECORD100)
    dataset = cifar100(tmp_path, labels=labels)
    assert dataset.labels.tolist() == records[:, byte].tolist()
    assert dataset.classes == classes
    assert torch.equal(whole(dataset), torch.from_numpy(records[:, 2:].reshape(12, 3, 32, 32)))
    assert available("cifar100", tmp_path) is None


@pytest.mark.parametrize("size", [0, 1, RECORD10 - 1, RECORD10 + 1, 2 * RECORD10 - 1])
def test_a_batch_of_broken_records_is_refused(tmp_path: Path, size: int) -> None:
    files = cifar10_files()
    files["data_batch_4.bin"] = (files["data_batch_4.bin"] * 2)[:size]
    put(tmp_path, files)
    with pytest.raises(DataError, match=rf"data_batch_4\.bin: {size} bytes, which are not a whole"):
        cifar10(tmp_path)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sizes=st.lists(st.integers(0, 3 * RECORD10), min_size=6, max_size=6))
def test_batches_of_any_sizes_are_refused(tmp_path: Path, sizes: list[int]) -> None:
    """Right sizes are 1 in 10^15 here."""
    names = list(cifar10_files(1))
    put(tmp_path, {name: bytes(size) for name, size in zip(names, sizes, strict=True)})
    with pytest.raises(DataError, match=re.escape(str(tmp_path))):
        cifar10(tmp_path)


def test_a_batch_that_lost_whole_records_is_refused(tmp_path: Path) -> None:
    files = cifar10_files()
    files["data_batch_2.bin"] = files["data_batch_2.bin"][:RECORD10]
    put(tmp_path, files)
    with pytest.raises(DataError, match="9 pictures of CIFAR-10 to train on and 2 to test on"):
        cifar10(tmp_path)


def test_labels_that_are_none_are_refused(tmp_path: Path) -> None:
    files = cifar10_files()
    body = bytearray(files["test_batch.bin"])
    body[RECORD10] = 10
    put(tmp_path, files | {"test_batch.bin": bytes(body)})
    with pytest.raises(DataError, match=r"test_batch\.bin: the class of record 1 is 10; expected"):
        cifar10(tmp_path)
    hundred = cifar100_files()
    for byte, name, value in ((0, "coarse class", 20), (1, "fine class", 100)):
        body = bytearray(hundred["train.bin"])
        body[3 * RECORD100 + byte] = value
        put(tmp_path, hundred | {"train.bin": bytes(body)})
        with pytest.raises(DataError, match=rf"train\.bin: the {name} of record 3 is {value}"):
            cifar100(tmp_path)


def test_what_is_missing_of_cifar_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"expected cifar-10-binary\.tar\.gz or data_batch_1\.bin"):
        cifar10(tmp_path)
    files = cifar10_files()
    del files["data_batch_3.bin"]
    put(tmp_path / "cifar-10-batches-bin", files)
    with pytest.raises(
        DataError, match=r"has files of CIFAR-10, but not data_batch_3\.bin; unpack"
    ):
        cifar10(tmp_path)
    packed = write(tmp_path / "other" / "cifar-10-binary.tar.gz", tar_gz(files))
    with pytest.raises(DataError, match=r"binary\.tar\.gz does not hold data_batch_3\.bin; fetch"):
        cifar10(packed.parent)
    with pytest.raises(ConfigurationError, match="labels must be 'fine' or 'coarse', not 'both'"):
        cifar100(tmp_path, labels="both")  # type: ignore[arg-type]


def test_a_batch_that_cannot_be_read_is_a_data_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    put(tmp_path, cifar10_files())
    monkeypatch.setattr(Path, "read_bytes", fail)
    with pytest.raises(DataError, match=r"data_batch_1\.bin: cannot be read \(Permission denied\)"):
        cifar10(tmp_path)


# --- CIFAR, pictures --------------------------------------------------------------------------


def cifar10_pictures(names: tuple[str, ...] = CIFAR10_CLASSES) -> dict[str, bytes]:
    """Make two pictures of each class to train on and one to test on, all of one colour."""
    return {
        f"{split}/{name}/{number:04}.png": png(
            np.full((3, 32, 32), [[[10 * label]], [[number]], [[split == "test"]]], np.uint8)
        )
        for split, count in (("train", 2), ("test", 1))
        for label, name in enumerate(names)
        for number in range(count)
    }


@pytest.mark.parametrize("place", ["", "cifar10", "cifar10-png", "packed", "packed/deeper"])
def test_classes_of_pictures_take_turns(tmp_path: Path, place: str) -> None:
    files = cifar10_pictures()
    if place.startswith("packed"):
        prefix = place.removeprefix("packed").lstrip("/")
        inside = {str(PurePosixPath(prefix, name)): body for name, body in files.items()}
        body = tar_gz(dict(reversed(inside.items())) | {"train/._x.png": b"", "train/a/x.txt": b""})
        write(tmp_path / "cifar10-png.tar.gz", body)
    else:
        put(tmp_path / place, files | {"train/cat/Thumbs.db": b"", "train/cat/._0000.png": b""})
    dataset = cifar10(tmp_path)
    assert repr(dataset) == "VerticalDataset('CIFAR-10', 4 parties, 20 + 10 rows, 10 classes)"
    assert dataset.labels.tolist() == [*range(10)] * 3
    colours = whole(dataset)[:, :, 31, 0]
    assert colours[:, 0].tolist() == [10 * label for label in range(10)] * 3
    assert colours[:, 1].tolist() == [0] * 10 + [1] * 10 + [0] * 10
    assert colours[:, 2].tolist() == [0] * 20 + [1] * 10
    assert "results are not comparable" in dataset.notes


def test_pictures_of_cifar100_are_not_taken_for_cifar10(tmp_path: Path) -> None:
    names = ("apple", *(f"thing {number:02}" for number in range(99)))
    write(tmp_path / "cifar100-png.tar.gz", tar_gz(cifar10_pictures_of(names)))
    with pytest.raises(DataError, match="expected cifar-10-binary"):
        cifar10(tmp_path)
    assert cifar100(tmp_path).classes == 100
    with pytest.raises(ConfigurationError, match="holds pictures by their fine class; set labels"):
        cifar100(tmp_path, labels="coarse")


def cifar10_pictures_of(names: tuple[str, ...]) -> dict[str, bytes]:
    body = png(noise(3, 32, 32))
    return {f"{split}/{name}/1.png": body for split in ("train", "test") for name in names}


def test_a_class_too_few_and_a_picture_too_large_are_refused(tmp_path: Path) -> None:
    files = cifar10_pictures_of(CIFAR10_CLASSES[:-1])
    put(tmp_path / "cifar10", files)
    with pytest.raises(DataError, match="pictures of 9 classes in train; expected the 10 of CIFAR"):
        cifar10(tmp_path)
    large = write(tmp_path / "cifar10" / "train" / "truck" / "1.png", png(noise(3, 32, 33)))
    with pytest.raises(DataError, match=r"truck/1\.png: a picture of 33 x 32 pixels; expected 32"):
        cifar10(tmp_path)
    large.unlink()
    with pytest.raises(DataError, match="truck holds no picture"):
        cifar10(tmp_path)


def test_a_damaged_picture_in_an_archive_is_named(tmp_path: Path) -> None:
    files = cifar10_pictures_of(CIFAR10_CLASSES)
    files["test/dog/1.png"] = files["test/dog/1.png"][:100]
    write(tmp_path / "cifar10.tar.gz", tar_gz(files))
    with pytest.raises(DataError, match=r"cifar10\.tar\.gz: test/dog/1\.png: is not a PNG or JPEG"):
        cifar10(tmp_path)


# --- ModelNet10 -------------------------------------------------------------------------------


def write_modelnet(
    folder: Path, name_of: Callable[[str, int, int], str], views: int = 12, first: int = 1
) -> None:
    """Write an object of each class to train and to test on; a picture's colour is its view."""
    for label, name in enumerate(MODELNET10_CLASSES):
        for split, thing in (("train", 1), ("test", 2)):
            for view in range(first, first + views):
                pixels = np.full((3, 8, 8), [[[10 * view]], [[label]], [[thing]]], np.uint8)
                write(folder / name / split / name_of(name, thing, view), png(pixels))


LAYOUTS: dict[str, Callable[[str, int, int], str]] = {
    "an object's folder": lambda name, thing, view: f"{name}_{thing:04}/{view}.png",
    "an object's folder, long names": lambda n, t, v: (
        f"{n}_{t:04}/{n}_{t:04}.obj.shaded_v{v:03}.png"
    ),
    "no folder": lambda name, thing, view: f"{name}_{thing:04}_{view:03}.png",
    "no folder, off": lambda name, thing, view: f"{name}_{thing:04}.off_{view}.png",
    "no folder, shaded": lambda name, thing, view: f"{name}_{thing:04}.obj.shaded_v{view:03}.png",
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("place", ["", "modelnet10", "ModelNet10"])
def test_parties_have_views_in_their_order(tmp_path: Path, layout: str, place: str) -> None:
    write_modelnet(tmp_path / place, LAYOUTS[layout])
    write(tmp_path / place / "airplane" / "train" / "airplane_0001_001.png", b"of ModelNet40")
    dataset = modelnet10(tmp_path, size=4)
    assert repr(dataset) == "VerticalDataset('ModelNet10', 4 parties, 10 + 10 rows, 10 classes)"
    assert dataset.labels.tolist() == [*range(10)] * 2
    for number, x in enumerate(dataset.features.values()):
        assert x.shape == (20, 3, 3, 4, 4)
        assert x.is_contiguous()
        colours = (x * 255).round().amax((3, 4))
        assert colours[0, :, 0].tolist() == [10 * (3 * number + view) for view in (1, 2, 3)]
        assert colours[:, 0, 1].tolist() == [*range(10)] * 2
        assert colours[:, 0, 2].tolist() == [1] * 10 + [2] * 10
    assert available("modelnet10", tmp_path) is None


def test_each_of_twelve_parties_has_a_view(tmp_path: Path) -> None:
    write_modelnet(tmp_path, LAYOUTS["no folder"], first=0)
    dataset = modelnet10(tmp_path, parties=12, size=8, channels=1, normalise=(0.5, 0.5))
    assert list(dataset.features) == [f"party_{number}" for number in range(1, 13)]
    assert {x.shape for x in dataset.features.values()} == {(20, 1, 1, 8, 8)}


def test_views_that_cannot_be_shared_out_are_refused(tmp_path: Path) -> None:
    write_modelnet(tmp_path, LAYOUTS["no folder"], views=4)
    for parties in (0, 3, 5, 8):
        with pytest.raises(ConfigurationError, match=f"4 views cannot be shared .* {parties} part"):
            modelnet10(tmp_path, parties=parties)
    assert len(modelnet10(tmp_path, parties=2, size=2).features) == 2


def test_objects_with_other_views_are_refused(tmp_path: Path) -> None:
    write_modelnet(tmp_path, LAYOUTS["no folder"], views=4)
    place = tmp_path / "sofa" / "test"
    (place / "sofa_0002_003.png").rename(place / "sofa_0002_007.png")
    with pytest.raises(DataError, match=r"sofa_0002_001\.png: an object with the views 1, 2, 4, 7"):
        modelnet10(tmp_path)
    write(place / "sofa_0002_07.png", b"")
    with pytest.raises(DataError, match=r"sofa_0002_07\.png.* are both view 7 of an object"):
        modelnet10(tmp_path)
    write(place / "sofa.png", b"")
    with pytest.raises(DataError, match=r"sofa\.png: its name does not end with the number of a"):
        modelnet10(tmp_path)


def test_what_is_missing_of_modelnet_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"expected pictures of ModelNet10 in modelnet10/bathtub/tr"
    ):
        modelnet10(tmp_path)
    write_modelnet(tmp_path, LAYOUTS["no folder"], views=4)
    (tmp_path / "night_stand").rename(tmp_path / "night stand")
    with pytest.raises(DataError, match="but not night_stand/train, night_stand/test; put all ten"):
        modelnet10(tmp_path)
    for error in ({"size": 0}, {"channels": 2}):
        with pytest.raises(ConfigurationError):
            modelnet10(tmp_path, **error)  # type: ignore[arg-type]


# --- ImageNet ---------------------------------------------------------------------------------


def write_imagenet(folder: Path, classes: int = 4) -> None:
    """Write 2 pictures of each class to train on, 1 to test on; a class is a shade of red."""
    for label in range(classes):
        for split, count in (("train", 2), ("val", 1)):
            for number in range(count):
                file = io.BytesIO()
                Image.new("RGB", (30 + 10 * number, 40), (50 * label, 0, 0)).save(file, "JPEG")
                name = f"n{label:08}"
                write(folder / split / name / f"{name}_{number}.JPEG", file.getvalue())


@pytest.mark.parametrize("place", ["", "imagenet", "imagenet100"])
def test_imagenet_has_classes_in_turn(tmp_path: Path, place: str) -> None:
    write_imagenet(tmp_path / place)
    dataset = imagenet(tmp_path, classes=4, size=6)
    assert repr(dataset) == "VerticalDataset('ImageNet-4', 4 parties, 8 + 4 rows, 4 classes)"
    assert dataset.labels.tolist() == [0, 1, 2, 3] * 3
    assert {x.shape for x in dataset.features.values()} == {(12, 3, 3, 3)}
    red = whole(dataset)[:, 0, 3, 3].int() - 50 * dataset.labels
    assert red.abs().max() <= 3


def test_classes_of_imagenet_have_labels_in_the_order_asked(tmp_path: Path) -> None:
    write_imagenet(tmp_path)
    dataset = imagenet(
        *(tmp_path,),
        classes=["n00000003", "n00000001"],
        size=6,
        partition="strips",
        parties=6,
        flatten=True,
    )
    assert dataset.classes == 2
    assert len(dataset.features) == 6
    red = dataset.features["party_1"][:, 0] * 255
    assert [round(float(x) / 50) for x in red] == [3, 1] * 3
    assert dataset.labels.tolist() == [0, 1] * 3
    assert imagenet(tmp_path, classes=2, size=6).classes == 2


def test_what_is_missing_of_imagenet_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected the folders imagenet/train and imagenet/val in"):
        imagenet(tmp_path)
    write_imagenet(tmp_path)
    with pytest.raises(DataError, match="train has folders of 4 classes; expected 100, so set"):
        imagenet(tmp_path)
    with pytest.raises(DataError, match="has no folder 'train/n9', 'val/n9'; every class needs"):
        imagenet(tmp_path, classes=["n00000000", "n9"])
    (tmp_path / "val" / "n00000001" / "n00000001_0.JPEG").unlink()
    with pytest.raises(DataError, match="val/n00000001 holds no picture"):
        imagenet(tmp_path, classes=2)


@pytest.mark.parametrize("classes", [0, 1, [], ["n1"], ["n1", "n1"], "n1"])
def test_classes_of_imagenet_that_cannot_be(tmp_path: Path, classes: Any) -> None:
    with pytest.raises(ConfigurationError, match="classes must"):
        imagenet(tmp_path, classes=classes)


def test_a_damaged_picture_of_imagenet_is_named(tmp_path: Path) -> None:
    write_imagenet(tmp_path)
    path = tmp_path / "train" / "n00000001" / "n00000001_1.JPEG"
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DataError, match=re.escape(f"{path}: is not a PNG or JPEG picture")):
        imagenet(tmp_path, classes=2, size=4)


# --- the catalogue ----------------------------------------------------------------------------

NAMES = ("emnist", "cifar10", "cifar100", "modelnet10", "imagenet")


@pytest.mark.parametrize("name", NAMES)
def test_what_is_missing_is_what_the_loader_would_say(tmp_path: Path, name: str) -> None:
    assert CATALOGUE[name].load.__name__ == CATALOGUE[name].name == name
    for folder in (None, tmp_path / "nowhere", tmp_path):
        with pytest.raises(DataError) as caught:
            CATALOGUE[name].load(folder)
        assert available(name, folder) == str(caught.value)


def test_the_catalogue_is_right_about_columns(tmp_path: Path) -> None:
    put(tmp_path, cifar10_files())
    for name, dataset in (("cifar10", cifar10(tmp_path)),):
        info = CATALOGUE[name]
        assert sum(x[0].numel() for x in dataset.features.values()) == info.columns
        assert dataset.classes == info.classes


# --- real data --------------------------------------------------------------------------------


@pytest.mark.data
def test_real_pictures_of_cifar10_are_read() -> None:
    """A few of each class: all 60000 take too long for a test."""
    path = Path(os.environ.get("COLONNADE_DATA") or ".", "cifar10-jpeg.tar.gz")
    if not path.is_file():
        pytest.skip("COLONNADE_DATA names no folder with cifar10-jpeg.tar.gz")
    assert available("cifar10", path.parent) is None
    seen: dict[str, list[NDArray[np.uint8]]] = {}
    count = 0

    def first_ones(name: str) -> bool:
        nonlocal count
        count += name.endswith(".jpg")
        return bool(re.fullmatch(r"train/\w+/000\d\.jpg", name))

    for name, body in archive_members(path, first_ones):
        seen.setdefault(PurePosixPath(name).parts[1], []).append(decode(name, body))
    assert count == CATALOGUE["cifar10"].rows
    assert tuple(sorted(seen)) == CIFAR10_CLASSES
    assert {len(pictures) for pictures in seen.values()} == {10}
    pictures = np.stack([np.stack(seen[name]) for name in CIFAR10_CLASSES])
    assert pictures.shape == (10, 10, 3, 32, 32)
    # The mean of all of CIFAR-10 is about .49, .48, .45.
    mean = pictures.mean((0, 1, 3, 4)) / 255
    assert np.abs(mean - [0.491, 0.482, 0.447]).max() < 0.06
    blueness = (pictures[:, :, 2].astype(float) - pictures[:, :, 0]).mean((1, 2, 3))
    sky, ground = (blueness[[CIFAR10_CLASSES.index(x) for x in names]] for names in (BLUE, BROWN))
    assert min(sky) > max(ground)
