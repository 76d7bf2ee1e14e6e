"""Data sets: the idx parser takes only what is exactly right, and partitions lose no pixel."""

from __future__ import annotations

import gzip
import inspect
import os
import pickle
import re
import struct
from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from colonnade.datasets import (
    VerticalDataset,
    fashion_mnist,
    mnist,
    mnist5k,
    quadrants,
    read_idx,
    strips,
)
from colonnade.datasets.idx import TYPES
from colonnade.datasets.partition import partitioned
from colonnade.errors import ConfigurationError, DataError

IMAGES = np.arange(7 * 4 * 5, dtype=np.uint8).reshape(7, 4, 5)
LABELS = np.array([3, 1, 4, 1, 5, 9, 2], dtype=np.uint8)


def idx_bytes(values: NDArray[Any], kind: int = 0x08) -> bytes:
    header = bytes([0, 0, kind, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape)
    return header + values.astype(TYPES[kind]).tobytes()


def write(path: Path, body: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(body, mtime=0) if path.suffix == ".gz" else body)
    return path


def read_or_refuse(path: Path) -> NDArray[Any] | str:
    try:
        return read_idx(path)
    except DataError as error:
        return str(error)


def write_mnist(folder: Path, prefix: str = "", suffix: str = "", first: int = 0) -> None:
    """Write the four files: 5 training and 2 test images, the first pixel of all is ``first``."""
    images = IMAGES.copy()
    images[0, 0, 0] = first
    for part, rows in (("train", slice(0, 5)), ("t10k", slice(5, 7))):
        for kind, values in (("images-idx3", images[rows]), ("labels-idx1", LABELS[rows])):
            write(folder / f"{prefix}{part}-{kind}-ubyte{suffix}", idx_bytes(values))


@pytest.fixture(autouse=True)
def _no_data_folder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.node.get_closest_marker("data"):
        monkeypatch.delenv("COLONNADE_DATA", raising=False)


@pytest.fixture
def data_folder() -> Path:
    folder = os.environ.get("COLONNADE_DATA")
    if not folder:
        pytest.skip("COLONNADE_DATA names no folder with the official MNIST files")
    return Path(folder)


# --- idx ------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 1, 3)])
def test_idx_gives_back_what_was_written(
    tmp_path: Path, suffix: str, kind: int, shape: tuple[int, ...]
) -> None:
    written = np.arange(np.prod(shape)).reshape(shape)
    found = read_idx(write(tmp_path / f"file{suffix}", idx_bytes(written, kind)))
    np.testing.assert_array_equal(found, written)
    assert found.dtype == np.dtype(TYPES[kind]).newbyteorder("=")
    assert found.flags.writeable


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_idx_cut_short_at_any_byte_is_refused(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"file{suffix}", idx_bytes(LABELS.reshape(1, 7)))
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(DataError, match=re.escape(str(path))):
            read_idx(path)


@pytest.mark.parametrize("size", range(12 + 7))
def test_idx_cut_short_and_then_packed_is_refused(tmp_path: Path, size: int) -> None:
    path = write(tmp_path / "file.gz", idx_bytes(LABELS.reshape(1, 7))[:size])
    with pytest.raises(DataError, match=re.escape(str(path))):
        read_idx(path)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_idx_with_a_byte_too_many_is_refused(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"file{suffix}", idx_bytes(LABELS) + b"\0")
    with pytest.raises(DataError, match="7 values are 7 bytes, but more follow"):
        read_idx(path)


def test_damaged_gzip_is_an_error_or_harmless(tmp_path: Path) -> None:
    """Any one byte wrong: refused, or (a time stamp, say) without effect on the values."""
    path = write(tmp_path / "file.gz", idx_bytes(LABELS))
    whole = path.read_bytes()
    for place in range(len(whole)):
        for flip in (0x01, 0x80, 0xFF):
            path.write_bytes(whole[:place] + bytes([whole[place] ^ flip]) + whole[place + 1 :])
            outcome = read_or_refuse(path)
            if isinstance(outcome, str):
                assert str(path) in outcome
            else:
                np.testing.assert_array_equal(outcome, LABELS)


@pytest.mark.parametrize(
    "magic",
    [
        b"\1\0\x08\1",
        b"\0\1\x08\1",
        b"\0\0\x0a\1",
        b"\0\0\x08\0",
        b"\0\0\x08\x41",
        b"\x1f\x8b\x08\0",
    ],
)
def test_wrong_magic_number_is_refused(tmp_path: Path, magic: bytes) -> None:
    path = write(tmp_path / "file", magic + idx_bytes(LABELS)[4:])
    with pytest.raises(DataError, match=f"begins with the bytes {magic.hex(' ')}"):
        read_idx(path)


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("dimensions", [(2**32 - 1,) * 3, (2**32 - 1,) * 64, (10**6,)])
def test_promise_that_the_file_cannot_hold_takes_no_memory(
    tmp_path: Path, suffix: str, dimensions: tuple[int, ...]
) -> None:
    header = bytes([0, 0, 8, len(dimensions)]) + struct.pack(f">{len(dimensions)}I", *dimensions)
    path = write(tmp_path / f"file{suffix}", header + b"\0" * 7)
    with pytest.raises(DataError, match="a file of this size cannot hold"):
        read_idx(path)


def test_no_more_is_unpacked_than_promised(tmp_path: Path) -> None:
    path = write(tmp_path / "file.gz", idx_bytes(LABELS) + b"\0" * 50_000_000)
    # A checksum that cannot be right: reached only by who unpacks everything.
    path.write_bytes(path.read_bytes()[:-8] + b"\0" * 8)
    with pytest.raises(DataError, match="but more follow"):
        read_idx(path)


@pytest.mark.parametrize("dimensions", [(0,), (3, 0), (0, 2**32 - 1)])
def test_idx_without_a_value_is_refused(tmp_path: Path, dimensions: tuple[int, ...]) -> None:
    header = bytes([0, 0, 8, len(dimensions)]) + struct.pack(f">{len(dimensions)}I", *dimensions)
    with pytest.raises(DataError, match="holds no value"):
        read_idx(write(tmp_path / "file", header))


def test_unreadable_file_is_a_data_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere: cannot be read \(No such file"):
        read_idx(tmp_path / "nowhere")
    with pytest.raises(DataError, match="cannot be read"):
        read_idx(tmp_path)


def test_plain_file_called_gz_is_a_data_error(tmp_path: Path) -> None:
    path = tmp_path / "file.gz"
    path.write_bytes(idx_bytes(LABELS))
    with pytest.raises(DataError, match="the gzip file is damaged"):
        read_idx(path)


# --- partitions -----------------------------------------------------------------------------

shapes = st.tuples(st.integers(1, 3), st.integers(2, 7), st.integers(2, 7))
channels = st.one_of(st.none(), st.integers(1, 3))


def pictures(shape: tuple[int, int, int], channels: int | None) -> torch.Tensor:
    n, height, width = shape
    full = (n, height, width) if channels is None else (n, channels, height, width)
    return torch.arange(int(np.prod(full))).reshape(full)


@given(shapes, channels)
def test_quadrants_reassemble(shape: tuple[int, int, int], channels: int | None) -> None:
    images = pictures(shape, channels)
    parts = quadrants(images, flatten=False)
    assert list(parts) == ["party_1", "party_2", "party_3", "party_4"]
    a, b, c, d = parts.values()
    whole = torch.cat([torch.cat([a, b], -1), torch.cat([c, d], -1)], -2)
    assert torch.equal(whole, images)
    assert a.shape[-2] - c.shape[-2] in (0, 1)
    assert a.shape[-1] - b.shape[-1] in (0, 1)


@given(shapes, channels, st.data())
def test_strips_reassemble(
    shape: tuple[int, int, int], channels: int | None, data: st.DataObject
) -> None:
    images = pictures(shape, channels)
    parties = data.draw(st.integers(1, shape[2]))
    parts = strips(images, parties, flatten=False)
    assert list(parts) == [f"party_{number}" for number in range(1, parties + 1)]
    assert torch.equal(torch.cat(list(parts.values()), -1), images)
    widths = [part.shape[-1] for part in parts.values()]
    assert widths == sorted(widths, reverse=True)
    assert widths[0] - widths[-1] <= 1


@given(shapes, channels)
def test_flattening_keeps_every_value_in_order(
    shape: tuple[int, int, int], channels: int | None
) -> None:
    images = pictures(shape, channels)
    for cut in (quadrants, lambda x, flatten=True: strips(x, 2, flatten=flatten)):
        for flat, shaped in zip(
            cut(images).values(), cut(images, flatten=False).values(), strict=True
        ):
            assert torch.equal(flat, shaped.reshape(len(images), -1))
            assert flat.is_contiguous()
            assert shaped.is_contiguous()


def test_parts_share_no_memory_with_the_images() -> None:
    images = torch.zeros(2, 4, 4)
    for parts in (strips(images, 1), quadrants(images)):
        for part in parts.values():
            part += 1
    assert not images.any()


def test_more_strips_than_columns_are_refused() -> None:
    for parties in (0, 6, -1):
        with pytest.raises(ConfigurationError, match=f"into 1 to 5 strips, not {parties}"):
            strips(torch.zeros(1, 4, 5), parties)


@pytest.mark.parametrize("shape", [(3,), (2, 3), (0, 4, 4), (1, 1, 1, 4, 4)])
def test_what_is_no_image_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(DataError, match=r"\[N, H, W\]"):
        quadrants(torch.zeros(shape))
    with pytest.raises(DataError, match=r"\[N, H, W\]"):
        strips(torch.zeros(shape), 1)


def test_image_of_one_row_has_no_quadrants() -> None:
    with pytest.raises(DataError, match="1 x 5 pixels"):
        quadrants(torch.zeros(2, 1, 5))


def test_partition_that_cannot_be_is_refused() -> None:
    images = torch.zeros(1, 4, 4)
    with pytest.raises(ConfigurationError, match="for 4 parties, not 3"):
        partitioned(images, "quadrants", 3)
    with pytest.raises(ConfigurationError, match="no partition 'rings'; expected one of 'quad"):
        partitioned(images, "rings", 4)  # type: ignore[arg-type]


# --- VerticalDataset --------------------------------------------------------------------------


@pytest.fixture
def toy() -> VerticalDataset:
    return VerticalDataset(
        name="toy",
        features={
            "bank": torch.arange(18.0).reshape(6, 3),
            "shop": torch.arange(48.0).reshape(6, 2, 2, 2),
        },
        labels=torch.tensor([0, 1, 2, 0, 1, 2]),
        classes=3,
        train=np.array([5, 0, 3, 1]),
        test=np.array([4, 2]),
    )


def test_dataset_describes_itself(toy: VerticalDataset) -> None:
    assert repr(toy) == "VerticalDataset('toy', 2 parties, 4 + 2 rows, 3 classes)"
    assert toy.parties == ("bank", "shop")
    assert toy.rows == 6
    with pytest.raises(FrozenInstanceError):
        toy.name = "other"  # type: ignore[misc]
    assert repr(pickle.loads(pickle.dumps(toy))) == repr(toy)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classes": 1}, "at least 2 classes, not 1"),
        ({"classes": 2}, "label of row 2 is 2; expected 0 to 1"),
        ({"labels": torch.tensor([0, 1, -1, 0, 1, 2])}, "label of row 2 is -1"),
        ({"labels": torch.zeros(6)}, r"int64 of shape \[N\], not float32 of shape \[6\]"),
        ({"labels": torch.zeros(6, 1).long()}, r"not int64 of shape \[6, 1\]"),
        ({"labels": torch.zeros(5).long()}, "bank has 6 rows, but there are 5 labels"),
        ({"features": {}}, "no party has features"),
        ({"features": {"": torch.zeros(6, 1)}}, "empty name"),
        ({"features": {"bank": torch.zeros(6)}}, r"bank must be float32 of shape \[N, ...\]"),
        ({"features": {"bank": torch.zeros(6, 0)}}, "not empty"),
        ({"features": {"bank": torch.zeros(6, 1).double()}}, "not float64"),
        (
            {"features": {"bank": torch.tensor([[0.0]] * 4 + [[torch.nan], [0.0]])}},
            "row 4 of bank holds a value that is not a finite",
        ),
        ({"train": np.array([0.0, 1.0])}, "train must be int64"),
        ({"train": np.array([[0, 1]])}, "train must be int64"),
        ({"test": np.array([], dtype=np.int64)}, "test has no row"),
        ({"test": np.array([6])}, "test names rows 6 to 6; expected 0 to 5"),
        ({"test": np.array([-1])}, "test names rows -1 to -1"),
        ({"train": np.array([0, 0])}, "train names a row twice"),
        ({"test": np.array([1, 2, 3])}, "2 rows are both in train and in test, the first is row 1"),
    ],
)
def test_dataset_that_cannot_be_trained_on_is_refused(
    toy: VerticalDataset, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=f"toy: .*{message}"):
        replace(toy, **change)


def test_head_takes_the_first_rows_of_each_kind(toy: VerticalDataset) -> None:
    small = toy.head(train=3, test=1)
    assert small.train.tolist() == [0, 1, 2]
    assert small.test.tolist() == [3]
    kept = torch.tensor([5, 0, 3, 4])
    assert torch.equal(small.labels, toy.labels[kept])
    for party in toy.parties:
        assert torch.equal(small.features[party], toy.features[party][kept])


def test_head_of_everything_keeps_every_pair(toy: VerticalDataset) -> None:
    same = toy.head()
    for old, new in ((toy.train, same.train), (toy.test, same.test)):
        assert torch.equal(toy.labels[old], same.labels[new])
        assert torch.equal(toy.features["shop"][old], same.features["shop"][new])


@pytest.mark.parametrize("counts", [{"train": 0}, {"train": 5}, {"test": -1}, {"test": 3}])
def test_head_of_more_than_there_is_is_refused(
    toy: VerticalDataset, counts: dict[str, int]
) -> None:
    with pytest.raises(ConfigurationError, match="asked for the first"):
        toy.head(**counts)


# --- MNIST from a folder ------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize(
    ("load", "subfolder", "prefix"),
    [
        (mnist, "", ""),
        (mnist, "", "mnist-"),
        (mnist, "mnist", ""),
        (mnist, "mnist", "mnist-"),
        (fashion_mnist, "", ""),
        (fashion_mnist, "", "fashion-"),
        (fashion_mnist, "fashion", ""),
        (fashion_mnist, "fashion-mnist", ""),
        (fashion_mnist, "fashion-mnist", "fashion-"),
    ],
)
def test_files_are_found_by_every_name(
    tmp_path: Path,
    load: Callable[..., VerticalDataset],
    subfolder: str,
    prefix: str,
    suffix: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_mnist(tmp_path / subfolder, prefix, suffix)
    found = load(tmp_path, flatten=False, partition="strips", parties=2)
    whole = torch.cat(list(found.features.values()), -1)
    assert torch.equal(whole, torch.from_numpy(IMAGES)[:, None].float() / 255)
    assert found.labels.tolist() == LABELS.tolist()
    assert (found.train.tolist(), found.test.tolist()) == ([0, 1, 2, 3, 4], [5, 6])
    assert found.classes == 10
    monkeypatch.setenv("COLONNADE_DATA", str(tmp_path))
    assert torch.equal(load().labels, found.labels)


def test_the_argument_goes_before_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_mnist(tmp_path / "a", first=255)
    write_mnist(tmp_path / "b", first=0)
    monkeypatch.setenv("COLONNADE_DATA", str(tmp_path / "b"))
    assert mnist(str(tmp_path / "a")).features["party_1"][0, 0] == 1
    assert mnist().features["party_1"][0, 0] == 0


def test_a_telling_name_goes_before_a_bare_one(tmp_path: Path) -> None:
    write_mnist(tmp_path, first=0)
    write_mnist(tmp_path / "fashion", first=100)
    assert fashion_mnist(tmp_path).features["party_1"][0, 0] == pytest.approx(100 / 255)
    write_mnist(tmp_path, "fashion-", first=200)
    assert fashion_mnist(tmp_path).features["party_1"][0, 0] == pytest.approx(200 / 255)
    assert mnist(tmp_path).features["party_1"][0, 0] == 0


def test_files_of_two_places_are_never_mixed(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    write_mnist(tmp_path, "fashion-")
    (tmp_path / "fashion-t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(DataError, match="expected the file fashion-t10k-labels-idx1-ubyte or"):
        fashion_mnist(tmp_path)


def test_digits_do_not_pass_for_clothes(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    labels = np.array([5, 0, 4, 1, 9, 2, 1, 3], dtype=np.uint8)
    write(tmp_path / "train-labels-idx1-ubyte", idx_bytes(labels))
    write(tmp_path / "train-images-idx3-ubyte", idx_bytes(np.zeros((8, 4, 5))))
    assert mnist(tmp_path).rows == 10
    with pytest.raises(DataError, match="the files of MNIST, not of Fashion-MNIST; put the files"):
        fashion_mnist(tmp_path)


@pytest.mark.parametrize("variable", [None, ""])
def test_no_folder_at_all(monkeypatch: pytest.MonkeyPatch, variable: str | None) -> None:
    if variable is not None:
        monkeypatch.setenv("COLONNADE_DATA", variable)
    with pytest.raises(DataError, match="--data or in the environment variable COLONNADE_DATA"):
        mnist()


def test_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere: there is no such folder to read MNIST from"):
        mnist(tmp_path / "nowhere")


def test_missing_file_is_named_with_its_folder(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        mnist(tmp_path)
    message = str(caught.value)
    assert (
        f"train-images-idx3-ubyte or train-images-idx3-ubyte.gz of MNIST in {tmp_path}" in message
    )
    assert "put the four official idx files there" in message
    assert "\n" not in message


def test_images_and_labels_must_be_as_many(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    write(tmp_path / "t10k-labels-idx1-ubyte", idx_bytes(LABELS))
    with pytest.raises(DataError, match="7 labels, but t10k-images-idx3-ubyte has 2 images"):
        mnist(tmp_path)


def test_label_out_of_range_is_refused(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    write(tmp_path / "t10k-labels-idx1-ubyte", idx_bytes(np.array([9, 10])))
    with pytest.raises(DataError, match="t10k-labels-idx1-ubyte: label 1 is 10; expected 0 to 9"):
        mnist(tmp_path)


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("train-images-idx3-ubyte", idx_bytes(IMAGES[:5].reshape(5, 20))),
        ("train-images-idx3-ubyte", idx_bytes(IMAGES[:5], kind=0x0C)),
        ("train-labels-idx1-ubyte", idx_bytes(LABELS[:5, None])),
        ("train-labels-idx1-ubyte", idx_bytes(LABELS[:5], kind=0x0D)),
    ],
)
def test_file_of_another_kind_is_refused(tmp_path: Path, name: str, body: bytes) -> None:
    write_mnist(tmp_path)
    write(tmp_path / name, body)
    with pytest.raises(DataError, match=f"{name}: expected .* of unsigned bytes"):
        mnist(tmp_path)


def test_images_must_all_have_one_size(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    write(tmp_path / "t10k-images-idx3-ubyte", idx_bytes(IMAGES[:2, :3]))
    with pytest.raises(DataError, match="images of 4 x 5 pixels, but test images of 3 x 5"):
        mnist(tmp_path)


def test_normalisation(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    plain, scaled = mnist(tmp_path), mnist(tmp_path, normalise=(0.1307, 0.3081))
    for party in plain.parties:
        torch.testing.assert_close(
            scaled.features[party], (plain.features[party] - 0.1307) / 0.3081
        )
    for wrong in ((0.1, 0.0), (0.1, -1.0), (float("nan"), 1.0), (0.0, float("inf"))):
        with pytest.raises(ConfigurationError, match="a positive standard deviation"):
            mnist(tmp_path, normalise=wrong)


def test_every_loader_takes_the_same_arguments() -> None:
    assert inspect.signature(mnist) == inspect.signature(fashion_mnist)
    assert inspect.signature(mnist) == inspect.signature(mnist5k)


# --- real data ----------------------------------------------------------------------------------


def test_mnist5k_is_stratified_and_takes_turns() -> None:
    found = mnist5k(flatten=False)
    assert (len(found.train), len(found.test)) == (4000, 1000)
    labels = found.labels.numpy()
    assert np.bincount(labels[found.train]).tolist() == [400] * 10
    assert np.bincount(labels[found.test]).tolist() == [100] * 10
    assert labels[found.train][:20].tolist() == 2 * list(range(10))
    assert labels[found.test][:20].tolist() == 2 * list(range(10))
    for part in found.features.values():
        assert part.shape == (5000, 1, 14, 14)
        assert (float(part.min()), float(part.max())) == (0, 1)


def test_mnist5k_is_the_same_every_time_and_shares_nothing() -> None:
    first = mnist5k(partition="strips", parties=28)
    before = {party: values.clone() for party, values in first.features.items()}
    for values in first.features.values():
        values.zero_()
    first.labels.zero_()
    second = mnist5k(partition="strips", parties=28)
    assert all(torch.equal(second.features[party], before[party]) for party in before)
    assert torch.bincount(second.labels).tolist() == [500] * 10


def test_mnist5k_keeps_images_and_labels_together() -> None:
    """The nearest class mean is right far more often than one in ten."""
    found = mnist5k(partition="strips", parties=1)
    x, y = found.features["party_1"], found.labels
    train, test = torch.from_numpy(found.train), torch.from_numpy(found.test)
    means = torch.stack([x[train][y[train] == digit].mean(0) for digit in range(10)])
    nearest = torch.cdist(x[test], means).argmin(1)
    assert (nearest == y[test]).float().mean() > 0.75


@pytest.mark.data
@pytest.mark.parametrize(
    ("load", "of_each"),
    [
        (mnist, [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]),
        (fashion_mnist, [1000] * 10),
    ],
)
def test_official_files(
    data_folder: Path, load: Callable[..., VerticalDataset], of_each: list[int]
) -> None:
    found = load(data_folder)
    assert (found.rows, len(found.train), len(found.test)) == (70_000, 60_000, 10_000)
    assert torch.bincount(found.labels[found.test]).tolist() == of_each
    assert {tuple(part.shape) for part in found.features.values()} == {(70_000, 196)}


@pytest.mark.data
def test_published_moments_of_mnist(data_folder: Path) -> None:
    found = mnist(data_folder, partition="strips", parties=1)
    pixels = found.features["party_1"][found.train].double()
    assert float(pixels.mean()) == pytest.approx(0.1307, abs=5e-5)
    assert float(pixels.std()) == pytest.approx(0.3081, abs=5e-5)
