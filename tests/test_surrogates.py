"""Laws of surrogate tables: equal bits wherever they are kept, and a way back after any crash."""

from __future__ import annotations

import errno
import gc
import hashlib
import json
import os
import pickle
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import surrogate_worker as worker
from colonnade.errors import (
    CheckpointError,
    ConfigurationError,
    Diverged,
    LocalProtocolError,
    Unwritten,
)
from colonnade.surrogates import Disk, Memory, Storage, Surrogate, disk

ROWS, WIDTH = 9, 3
PRECISIONS = ["float32", "float16"]
ALL = np.arange(ROWS)

each_precision = pytest.mark.parametrize("precision", PRECISIONS)


def whole(table: Surrogate, rows: int = ROWS) -> torch.Tensor:
    return table.read(np.arange(rows))


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.dtype == other.dtype == torch.float32 and torch.equal(
        one.view(torch.int32), other.view(torch.int32)
    )


def ones(rows) -> torch.Tensor:
    return torch.ones(len(rows), WIDTH)


@pytest.fixture(params=["memory", "disk"])
def storage(request, tmp_path):
    return Memory if request.param == "memory" else lambda dtype: Disk(tmp_path / "tables", dtype)


# Every storage


@each_precision
def test_a_table_starts_at_zero_and_adds(storage, precision):
    assert isinstance(storage(precision), Storage)
    table = storage(precision).table("bank", ROWS, WIDTH)
    assert same_bits(whole(table), torch.zeros(ROWS, WIDTH))
    rows = np.array([7, 2])
    assert same_bits(table.add(rows, ones(rows)), ones(rows))
    change = torch.tensor([[0.5, 0.25, -1.0]])
    assert same_bits(table.add(np.array([2]), change), change + 1)
    expected = torch.zeros(ROWS, WIDTH)
    expected[7], expected[2] = 1.0, change[0] + 1
    assert same_bits(whole(table), expected)


@each_precision
def test_what_is_read_is_a_copy(storage, precision):
    table = storage(precision).table("bank", ROWS, WIDTH)
    rows = np.array([1])
    for copy in (table.read(rows), table.add(rows, ones(rows)), table.read(rows)):
        copy.fill_(9.0)
    assert same_bits(table.read(rows), ones(rows))


@each_precision
@pytest.mark.parametrize(("rows", "width"), [(0, 3), (4, 0), (0, 0)])
def test_a_table_may_be_empty(storage, precision, rows, width):
    table = storage(precision).table("bank", rows, width)
    everything = np.arange(rows)
    assert table.add(everything, torch.zeros(rows, width)).shape == (rows, width)
    state = table.state_dict()
    table.load_state_dict(state)
    assert table.read(everything).shape == (rows, width)
    assert table.add(np.empty(0, np.int64), torch.zeros(0, width)).shape == (0, width)


finite = st.floats(-30_000, 30_000, width=32)


@given(st.lists(finite, min_size=1, max_size=50), st.data())
def test_float16_is_the_float32_sum_rounded_once_to_nearest_even(known, data):
    change = data.draw(st.lists(finite, min_size=len(known), max_size=len(known)))
    table = Memory("float16").table("", 1, len(known))
    table.add(np.array([0]), torch.tensor([known]))
    table.add(np.array([0]), torch.tensor([change]))
    start = (np.array(known, np.float32) + 0).astype(np.float16).astype(np.float32)
    expected = (start + np.array(change, np.float32)).astype(np.float16).astype(np.float32)
    assert same_bits(table.read(np.array([0]))[0], torch.from_numpy(expected))


@pytest.mark.parametrize(
    ("precision", "known", "change"),
    [
        ("float16", 65504.0, 16.0),  # rounds up, to infinity
        ("float16", 0.0, 1e30),
        ("float32", 3e38, 3e38),
        ("float32", 1.0, float("nan")),
        ("float32", 1.0, float("-inf")),
    ],
)
def test_a_sum_that_is_not_finite_changes_nothing(storage, precision, known, change):
    table = storage(precision).table("bank", ROWS, WIDTH)
    rows = np.array([4, 1])
    table.add(rows, known * ones(rows))
    before = whole(table)
    wrong = ones(rows)
    wrong[1, 2] = change
    with pytest.raises(Diverged, match=f"finite numbers of torch.{precision}"):
        table.add(rows, wrong)
    assert same_bits(whole(table), before)


def test_float16_ends_at_its_largest_number(storage):
    table = storage("float16").table("bank", 1, 1)
    table.add(np.array([0]), torch.tensor([[65504.0]]))
    assert table.add(np.array([0]), torch.tensor([[15.0]])).item() == 65504.0


@each_precision
def test_a_state_of_another_table_is_refused(storage, precision):
    table = storage(precision).table("bank", ROWS, WIDTH)
    for other, what in (
        (storage(precision).table("shop", ROWS + 1, WIDTH), "shape"),
        (storage(precision).table("shop", ROWS, WIDTH - 1), "shape"),
        (storage("float16" if precision == "float32" else "float32").table("s", ROWS, 3), "dtype"),
    ):
        other.add(np.array([0]), torch.ones(1, other.read(np.array([0])).shape[1]))
        with pytest.raises(CheckpointError, match=f"saved surrogate has {what}"):
            table.load_state_dict(other.state_dict())


def test_a_state_of_another_storage_is_refused(tmp_path):
    memory = Memory().table("bank", ROWS, WIDTH)
    disk = Disk(tmp_path).table("bank", ROWS, WIDTH)
    with pytest.raises(CheckpointError, match="kept in memory, but this link keeps it on a disk"):
        disk.load_state_dict(memory.state_dict())
    with pytest.raises(CheckpointError, match="kept on a disk, but this link keeps it in memory"):
        memory.load_state_dict(disk.state_dict())


def test_another_precision_and_too_few_marks_are_refused(tmp_path):
    with pytest.raises(ConfigurationError, match="'float32' or 'float16', not 'float64'"):
        Memory("float64")
    with pytest.raises(ConfigurationError, match="'float32' or 'float16', not 'bfloat16'"):
        Disk(tmp_path, "bfloat16")
    with pytest.raises(ConfigurationError, match="at least 3 marks, not 2"):
        Disk(tmp_path, keep=2)
    with pytest.raises(ConfigurationError, match="cannot have 1000000000 rows"):
        Disk(tmp_path).table("bank", 10**9, 1)
    with pytest.raises(ConfigurationError, match="needs a name"):
        Disk(tmp_path).table("", 1, 1)


def test_the_bytes_of_a_table_are_told(tmp_path):
    assert Memory().bytes_remembered(1000, 256) == 1_024_000
    assert Memory("float16").bytes_remembered(1000, 256) == 512_000
    assert Disk(tmp_path).bytes_remembered(1000, 256) == 9_000
    disk = Disk(tmp_path, "float16")
    table = disk.table("bank", ROWS, WIDTH)
    for _ in range(8):
        table.add(ALL, ones(ALL))
        table.state_dict()
    used = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
    digests = 16 * disk.keep
    # At most, with one mark more than are ever kept when all is quiet.
    assert used - digests == disk.bytes_on_disk(ROWS, WIDTH) - 4 * ROWS


# A table on a disk against a model


@st.composite
def steps(draw):
    row = st.integers(0, ROWS - 1)
    add = st.tuples(
        st.just("add"), st.lists(row, unique=True, max_size=ROWS), st.integers(0, 10**6)
    )
    mark = st.tuples(st.just("mark"))
    back = st.tuples(st.just("load"), st.integers(0, 3), st.booleans())
    return draw(st.lists(st.one_of(add, add, mark, back), max_size=40))


@given(steps(), st.sampled_from(PRECISIONS))
@settings(max_examples=200)
def test_any_sequence_of_adding_marking_crashing_and_going_back(sequence, precision):
    with tempfile.TemporaryDirectory() as folder:
        storage = Disk(Path(folder), precision)
        table = storage.table("bank", ROWS, WIDTH)
        model = Memory(precision).table("", ROWS, WIDTH)
        kept = [(table.state_dict(), whole(model))]
        for kind, *arguments in sequence:
            if kind == "add":
                rows, seed = np.array(arguments[0], np.int64), arguments[1]
                values = np.random.default_rng(seed).normal(size=(len(rows), WIDTH))
                change = torch.from_numpy(values.astype(np.float32))
                assert same_bits(table.add(rows, change), model.add(rows, change))
            elif kind == "mark":
                state = table.state_dict()
                assert state == table.state_dict()
                if state != kept[-1][0]:
                    kept = [*kept, (state, whole(model))][-storage.keep :]
                assert same_bits(whole(model), kept[-1][1])
            else:
                back, crashed = arguments
                kept = kept[: max(1, len(kept) - back)]
                state, expected = kept[-1]
                if crashed:
                    table = storage.table("bank", ROWS, WIDTH)
                table.load_state_dict(json.loads(json.dumps(state)))
                model = Memory(precision).table("", ROWS, WIDTH)
                model.add(ALL, expected)
            assert same_bits(whole(table), whole(model))


# Crashes


class Crash(BaseException):
    """Stands for SIGKILL: nothing of ours runs after it."""


class Fuse:
    """Makes the n-th change of the disk the last: a crash halfway through it."""

    def __init__(self, monkeypatch, calls):
        self.left = calls
        pwrite, ftruncate, fsync = os.pwrite, os.ftruncate, os.fsync
        rename, unlink = Path.rename, Path.unlink

        def half(file, data, offset):
            self.burn(lambda: pwrite(file, data[: len(data) // 2], offset))
            return pwrite(file, data, offset)

        def syncing(file):
            # The draft of a mark may be anything before it was flushed.
            self.burn(lambda: None)
            return fsync(file)

        def plain(function):
            def call(*arguments, **options):
                self.burn(lambda: None)
                result = function(*arguments, **options)
                self.burn(lambda: None)
                return result

            return call

        monkeypatch.setattr(os, "pwrite", half)
        monkeypatch.setattr(os, "fsync", syncing)
        monkeypatch.setattr(os, "ftruncate", plain(ftruncate))
        monkeypatch.setattr(Path, "rename", plain(rename))
        monkeypatch.setattr(Path, "unlink", plain(unlink))

    def burn(self, last):
        self.left -= 1
        if self.left == 0:
            last()
            raise Crash


def advance(storage, state, first):
    """Go on from a state as a run does; yield what each committed checkpoint would hold."""
    table = storage.table("bank", ROWS, WIDTH)
    table.load_state_dict(state)
    for step in range(first, first + 12):
        rows = np.random.default_rng(step).permutation(ROWS)[: 1 + step % ROWS]
        table.add(rows, (step + 1) * ones(rows))
        if step % 2:
            # Read before the mark: after a crash in the middle of it, it was not committed.
            values = whole(table)
            yield step + 1, table.state_dict(), values


def crash_points():
    return range(1, 400)


def test_a_crash_at_any_change_of_the_disk_leaves_the_last_two_checkpoints(tmp_path):
    fresh = (0, Disk(tmp_path).table("bank", ROWS, WIDTH).state_dict(), torch.zeros(ROWS, WIDTH))
    for point in crash_points():
        storage = Disk(tmp_path / str(point))
        committed = [fresh]
        crashed = False
        with pytest.MonkeyPatch.context() as patch:
            Fuse(patch, point)
            try:
                for saved in advance(storage, fresh[1], 0):
                    committed.append(saved)
            except Crash:
                crashed = True
        for step, state, values in committed[-1:-3:-1]:  # the older one after the newer one
            table = storage.table("bank", ROWS, WIDTH)
            table.load_state_dict(state)
            assert same_bits(whole(table), values), (point, step)
        if not crashed:
            break
    assert not crashed
    assert point > 50


def test_a_crash_on_the_way_back_leaves_the_way_back(tmp_path):
    fresh = Disk(tmp_path).table("bank", ROWS, WIDTH).state_dict()
    for point in crash_points():
        storage = Disk(tmp_path / str(point))
        *_, older, newer = advance(storage, fresh, 0)
        for crash_at in (point, point // 2 + 1):
            with pytest.MonkeyPatch.context() as patch:
                fuse = Fuse(patch, crash_at)
                try:
                    for _ in advance(storage, older[1], older[0]):
                        break
                except Crash:
                    pass
        table = storage.table("bank", ROWS, WIDTH)
        table.load_state_dict(older[1])
        assert same_bits(whole(table), older[2]), point
        with pytest.raises(CheckpointError, match="went on from an older checkpoint"):
            table.load_state_dict(newer[1])
        if fuse.left > 0:
            break
    assert fuse.left > 0
    assert point > 10


def test_killed_processes_leave_every_committed_checkpoint(tmp_path):
    """SIGKILL after a random number of checkpoints, again and again on the same files."""
    luck = random.Random(0)
    arguments = ["0"]
    for trial in range(4):
        command = [sys.executable, worker.__file__, str(tmp_path), *arguments]
        committed = []
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            for _ in range(luck.randrange(2, 20)):
                step, state = process.stdout.readline().split(" ", 1)
                committed.append((int(step), state))
            process.kill()
            # What it has still printed, it has still committed; a torn line, it has not.
            for line in process.stdout.read().splitlines(keepends=True):
                if line.endswith("\n"):
                    step, state = line.split(" ", 1)
                    committed.append((int(step), state))
        assert process.returncode == -9
        (step, state) = committed[-1 - trial % 2]  # or the one before, as if that were damaged
        table = worker.table(tmp_path)
        table.load_state_dict(json.loads(state))
        assert same_bits(whole(table, worker.ROWS), worker.replay(step))
        table.load_state_dict(json.loads(state))  # lets go of the files
        arguments = [str(step), state]


def test_a_mark_is_named_only_after_its_rows_are_on_the_disk(tmp_path, monkeypatch):
    """For a power loss, which no test can make: the order of what state_dict asks of the disk."""
    storage = Disk(tmp_path)
    table = storage.table("bank", ROWS, WIDTH)
    for _ in range(storage.keep):
        table.add(ALL, ones(ALL))
        table.state_dict()
    table.add(ALL, ones(ALL))
    calls = []
    fsync, rename, unlink = os.fsync, Path.rename, Path.unlink

    def name(file):
        path = Path(f"/proc/self/fd/{file}").readlink()
        return path.suffix or path.name

    monkeypatch.setattr(os, "fsync", lambda file: (calls.append(f"sync {name(file)}"), fsync(file)))
    monkeypatch.setattr(Path, "rename", lambda *a: (calls.append("rename"), rename(*a)))
    monkeypatch.setattr(Path, "unlink", lambda *a: (calls.append("unlink"), unlink(*a)))
    table.state_dict()
    assert calls == [
        "sync rows",
        "sync .writing",
        "rename",
        "unlink",
        f"sync {of_the_run(tmp_path).name}",
    ]


def of_the_run(folder, name="bank"):
    """Where the only run has its table."""
    (there,) = (folder / name).iterdir()
    return there


# Marks


def marked(storage, marks=1, name="bank"):
    """A table with so many marks, and their states."""
    table = storage.table(name, ROWS, WIDTH)
    states = []
    for _ in range(marks):
        table.add(ALL[1:5], ones(ALL[1:5]))
        states.append(table.state_dict())
    return table, states


def test_a_mark_without_a_change_is_the_last_one_again(tmp_path):
    storage = Disk(tmp_path)
    untouched = storage.table("bank", ROWS, WIDTH)
    assert untouched.state_dict()["generation"] == 0
    assert not list(tmp_path.iterdir())
    table, (state,) = marked(storage)
    assert table.state_dict() == state
    again = storage.table("bank", ROWS, WIDTH)
    again.load_state_dict(state)
    assert again.state_dict() == state
    whole(again)
    again.add(np.empty(0, np.int64), torch.zeros(0, WIDTH))
    assert again.state_dict() == state


def test_a_mark_that_is_too_old_is_refused(tmp_path):
    table, states = marked(Disk(tmp_path), marks=5)
    for state in states[:2]:
        with pytest.raises(CheckpointError, match="only goes back to 3: resume from a newer"):
            table.load_state_dict(state)
    for generation in (5, 4, 3):
        table.load_state_dict(states[generation - 1])
        assert whole(table)[1, 0] == generation


@pytest.mark.parametrize("foreign", ["._{}", "Copy of {}", "99999999-x.mark", "x.writing"])
def test_what_is_no_mark_by_its_name_is_left_alone(tmp_path, foreign):
    table, states = marked(Disk(tmp_path), marks=5)
    newest = max(of_the_run(tmp_path).glob("*.mark"))
    path = newest.with_name(foreign.format(newest.name))
    path.write_bytes(b"\0\5\26\7")
    table.load_state_dict(states[3])
    assert whole(table)[1, 0] == 4
    table.add(ALL[1:2], ones(ALL[1:2]))
    with pytest.raises(CheckpointError, match="only goes back to 3"):
        table.load_state_dict(states[1])
    assert path.read_bytes() == b"\0\5\26\7"


def test_a_mark_that_was_gone_back_behind_is_refused_though_its_number_comes_again(tmp_path):
    table, (first, second) = marked(Disk(tmp_path), marks=2)
    table.load_state_dict(first)
    table.add(ALL, 5 * ones(ALL))
    assert table.state_dict()["generation"] == second["generation"]
    with pytest.raises(CheckpointError, match="begun anew there, or went on from an older"):
        table.load_state_dict(second)


def test_a_run_that_begins_leaves_what_another_goes_on_from(tmp_path):
    storage = Disk(tmp_path)
    stopped, (old,) = marked(storage)
    expected = whole(stopped)
    for _ in range(storage.keep + 1):
        table, (new,) = marked(storage)
        assert same_bits(whole(table)[1:5], ones(ALL[1:5]))
        assert new["generation"] == old["generation"]
        table.add(ALL, ones(ALL))
    again = storage.table("bank", ROWS, WIDTH)
    again.load_state_dict(old)
    assert same_bits(whole(again), expected)


def test_what_ended_without_a_mark_is_removed_and_nothing_else(tmp_path):
    storage = Disk(tmp_path)
    ended, used = (storage.table("bank", ROWS, WIDTH) for _ in range(2))
    ended.add(ALL, ones(ALL))
    (left,) = (tmp_path / "bank").iterdir()
    used.add(ALL, ones(ALL))
    assert left.exists()  # another process, or thread, may be at work there
    (tmp_path / "bank" / "notes").mkdir()
    del ended
    gc.collect()
    table, _ = marked(storage)
    assert not left.exists()
    assert len([*(tmp_path / "bank").iterdir()]) == 3
    assert same_bits(whole(used), ones(ALL))
    del used, table
    gc.collect()
    whole(storage.table("bank", ROWS, WIDTH))
    assert list((tmp_path / "bank").rglob("*.mark"))


def test_a_table_of_an_earlier_version_goes_on_where_it_lies(tmp_path):
    storage = Disk(tmp_path)
    table, (state,) = marked(storage)
    expected = whole(table)
    del table
    gc.collect()
    for file in (place := of_the_run(tmp_path)).iterdir():
        file.rename(moved := tmp_path / "bank" / file.name)
        if moved.suffix == ".mark":  # whose digest was of the slots alone
            slots = moved.read_bytes()[:-16]
            moved.write_bytes(slots + hashlib.blake2b(slots, digest_size=16).digest())
    place.rmdir()
    del state["place"]
    again = storage.table("bank", ROWS, WIDTH)
    again.load_state_dict(state)
    assert same_bits(whole(again), expected)
    again.add(ALL, ones(ALL))
    assert again.state_dict()["generation"] == 2
    assert len([*(tmp_path / "bank").glob("*.mark")]) == 2


def test_without_its_files_a_checkpoint_is_refused(tmp_path):
    _, (state,) = marked(Disk(tmp_path / "here"))
    elsewhere = Disk(tmp_path / "there").table("bank", ROWS, WIDTH)
    with pytest.raises(CheckpointError, match="and there is none: resume where the run was begun"):
        elsewhere.load_state_dict(state)
    assert not (tmp_path / "there").exists()


def test_the_files_may_be_moved(tmp_path):
    table, (state,) = marked(Disk(tmp_path / "here"))
    before = whole(table)
    (tmp_path / "here").rename(tmp_path / "there")
    moved = Disk(tmp_path / "there").table("bank", ROWS, WIDTH)
    moved.load_state_dict(state)
    assert same_bits(whole(moved), before)


def test_names_become_files_of_their_own(tmp_path):
    names = ["a/b", "a%2Fb", "..", ".", "ä b", "a", "A.b", "a:b"]
    storage = Disk(tmp_path / "tables")
    tables = [storage.table(name, ROWS, WIDTH) for name in names]
    for number, table in enumerate(tables):
        table.add(ALL, number * ones(ALL))
    assert [int(whole(table)[0, 0]) for table in tables] == list(range(len(names)))
    assert [path.name for path in tmp_path.iterdir()] == ["tables"]
    assert len(list((tmp_path / "tables").iterdir())) == len(names)


def test_the_file_of_rows_stops_growing(tmp_path):
    storage = Disk(tmp_path)
    table = storage.table("bank", ROWS, WIDTH)
    sizes = []
    for _ in range(20):
        table.add(ALL, ones(ALL))
        table.add(ALL, ones(ALL))
        table.load_state_dict(table.state_dict())
        sizes.append((of_the_run(tmp_path) / "rows").stat().st_size)
    assert max(sizes) == (storage.keep + 1) * ROWS * (4 * WIDTH + 4)


# Damage


def test_a_damaged_mark_is_refused_and_the_one_before_still_serves(tmp_path):
    table, (first, second) = marked(Disk(tmp_path), marks=2)
    path = sorted(of_the_run(tmp_path).glob("*.mark"))[1]
    good = path.read_bytes()
    torn = [good[:end] for end in range(len(good))]
    flipped = [
        good[:at] + bytes([good[at] ^ 1 << bit]) + good[at + 1 :]
        for at in range(len(good))
        for bit in range(8)
    ]
    for data in (*torn, *flipped, good + b"\0"):
        path.write_bytes(data)
        with pytest.raises(CheckpointError, match=r"\.mark is damaged"):
            table.load_state_dict(second)
    table.load_state_dict(first)
    assert whole(table)[1, 0] == 1


def test_a_mark_in_the_place_of_another_is_refused(tmp_path):
    table, (first, second) = marked(Disk(tmp_path), marks=2)
    older, newer = sorted(of_the_run(tmp_path).glob("*.mark"))
    newer.write_bytes(older.read_bytes())
    with pytest.raises(CheckpointError, match=r"\.mark is damaged"):
        table.load_state_dict(second)
    table.load_state_dict(first)
    assert whole(table)[1, 0] == 1


def test_a_damaged_older_mark_is_given_up(tmp_path):
    table, (first, second) = marked(Disk(tmp_path), marks=2)
    path = sorted(of_the_run(tmp_path).glob("*.mark"))[0]
    path.write_bytes(b"damaged")
    table.load_state_dict(second)
    assert whole(table)[1, 0] == 2
    with pytest.raises(CheckpointError, match="only goes back to 2"):
        table.load_state_dict(first)


def test_a_flipped_bit_of_a_row_is_found(tmp_path):
    table, (_,) = marked(Disk(tmp_path, "float16"))
    path = of_the_run(tmp_path) / "rows"
    good = path.read_bytes()
    assert len(good) == 4 * (2 * WIDTH + 4)
    for at in range(len(good)):
        for bit in range(8):
            path.write_bytes(good[:at] + bytes([good[at] ^ 1 << bit]) + good[at + 1 :])
            row = 1 + at // (2 * WIDTH + 4)
            with pytest.raises(CheckpointError, match=f"row {row} is not what was written"):
                whole(table)
    path.write_bytes(bytes(len(good)))  # blocks that never reached the disk
    with pytest.raises(CheckpointError, match="row 1 is not what was written"):
        whole(table)


def test_a_row_in_the_place_of_another_is_found(tmp_path):
    table, (_,) = marked(Disk(tmp_path))
    path = of_the_run(tmp_path) / "rows"
    good, size = path.read_bytes(), 4 * WIDTH + 4
    path.write_bytes(good[size : 2 * size] + good[:size] + good[2 * size :])
    with pytest.raises(CheckpointError, match="row 1 is not what was written"):
        whole(table)


def test_missing_rows_are_found(tmp_path):
    table, (state,) = marked(Disk(tmp_path))
    path = of_the_run(tmp_path) / "rows"
    good = path.read_bytes()
    path.write_bytes(good[:-1])
    with pytest.raises(CheckpointError, match="ends early"):
        whole(table)
    with pytest.raises(CheckpointError, match=f"{len(good) - 1} bytes, but .* {len(good)}"):
        table.load_state_dict(state)
    path.unlink()
    with pytest.raises(CheckpointError, match="rows of the surrogate table are missing"):
        table.load_state_dict(state)


def test_a_full_disk_is_told_and_survived(tmp_path, monkeypatch):
    table, (state,) = marked(Disk(tmp_path))
    before = whole(table)

    def full(file, data, offset):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(Unwritten, match=r"cannot be written: No space left .*; make room"):
            table.add(ALL, ones(ALL))
    table.load_state_dict(state)
    assert same_bits(whole(table), before)


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    table = Disk(tmp_path / "file").table("bank", ROWS, WIDTH)
    with pytest.raises(Unwritten, match=r"cannot be written: .*; something else is in its place"):
        whole(table)


def test_writes_that_the_system_cuts_short_are_finished(tmp_path, monkeypatch):
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, at: pwrite(file, data[:5], at))
    table, _ = marked(Disk(tmp_path))
    assert same_bits(whole(table)[1:5], ones(ALL[1:5]))


# One user at a time


def test_another_process_is_kept_out_until_this_one_is_done(tmp_path):
    table = worker.table(tmp_path)
    table.add(*worker.change(0))
    state = table.state_dict()
    command = [sys.executable, worker.__file__, str(tmp_path)]
    goes_on = [*command, "1", json.dumps(state)]
    refused = subprocess.run(goes_on, capture_output=True, text=True, timeout=60)
    assert "another process is using the surrogate table" in refused.stderr
    table.load_state_dict(state)  # lets go of the files
    with subprocess.Popen(goes_on, stdout=subprocess.PIPE, text=True) as process:
        line = process.stdout.readline()
        with pytest.raises(ConfigurationError, match="another process is using"):
            worker.table(tmp_path).load_state_dict(state)
        process.kill()
        line = [line, *process.stdout][-1]  # it went on until it was killed
    step, state = line.split(" ", 1)
    table.load_state_dict(json.loads(state))
    assert same_bits(whole(table, worker.ROWS), worker.replay(int(step)))


def test_in_one_process_the_newest_table_of_a_name_wins_and_the_other_says_so(tmp_path):
    storage = Disk(tmp_path)
    older, (state,) = marked(storage)
    newer = storage.table("bank", ROWS, WIDTH)
    newer.load_state_dict(state)
    whole(newer)
    for use in (
        lambda: older.read(ALL),
        lambda: older.add(ALL, ones(ALL)),
    ):
        with pytest.raises(LocalProtocolError, match="a name of its own"):
            use()
    newer.add(ALL, ones(ALL))


def test_a_table_can_go_to_another_process_until_it_is_used(tmp_path):
    table, (state,) = marked(Disk(tmp_path))
    before = whole(table)
    table.load_state_dict(state)
    copied = pickle.loads(pickle.dumps(table))
    assert same_bits(whole(copied), before)


def test_a_folder_may_be_shared_with_whom_nobody_may_look_at(tmp_path, monkeypatch):
    """The lock of another user says nothing of whether the place may be swept, so it stays."""
    older, _ = marked(Disk(tmp_path))
    del older
    opened = os.open

    def refused(path, *how):
        if Path(path).name == "lock" and not how[0] & os.O_CREAT:
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, *how)

    monkeypatch.setattr(os, "open", refused)
    _newer, _ = marked(Disk(tmp_path))  # kept alive, as is its table
    assert len(list((tmp_path / "bank").iterdir())) == 2


def test_a_mark_that_cannot_be_read_is_told_as_that(tmp_path, monkeypatch):
    older, (state,) = marked(Disk(tmp_path))
    del older

    def refused(*_):
        raise PermissionError(13, "Permission denied", "mark")

    monkeypatch.setattr(disk, "read_mark", refused)
    with pytest.raises(Unwritten, match="mark cannot be read: Permission denied"):
        Disk(tmp_path).table("bank", ROWS, WIDTH).load_state_dict(state)
