"""Journals: what is committed is never forgotten, and no incarnation number is given twice."""

from __future__ import annotations

import math
import os
import re
import sys
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colonnade.checkpoints import CheckpointStore
from colonnade.drivers import Assignment, Processes, Replay
from colonnade.effects import Commit, Expect, Notes, Receive, Send
from colonnade.errors import CheckpointError, LocalProtocolError, Unwritten
from colonnade.journals import MAGIC, MAX_RECORD_BYTES, Journal, open_journals
from test_checkpoints import die_before, killed
from test_simulate import DRIVER
from toys import Careful, Scripted

RECORDS = [{"round": 0, "of": ["bank"]}, {"share": b"\x00\xff", "epsilon": 0.5}, {}]


def written(folder, records=RECORDS, name="bank"):
    """Write records, and return the file and where each record of it ends."""
    journal = Journal(folder, name)
    ends = [journal.path.stat().st_size]
    for record in records:
        journal.commit(record)
        ends.append(journal.path.stat().st_size)
    journal.close()
    return journal.path, ends


def reopened(folder, name="bank"):
    journal = Journal(folder, name)
    journal.close()
    return journal.notes()


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text("abc") | st.integers(0, 9), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=50)
@given(st.lists(st.dictionaries(st.text("xyz"), PLAIN, max_size=3), max_size=4))
def test_what_is_committed_is_remembered_on_disk_as_in_memory(tmp_path_factory, records):
    folder = tmp_path_factory.mktemp("journal")
    written(folder, records)
    memory = Journal(None, "bank")
    for record in records:
        memory.commit(record)
    assert reopened(folder) == Notes(1, tuple(records))
    assert memory.notes() == Notes(0, tuple(records))
    assert Journal.remembered("bank", memory.notes()).notes() == memory.notes()


def test_what_is_remembered_are_copies():
    journal = Journal(None, "bank")
    journal.commit({"shares": [1, math.inf]})
    journal.notes().records[0]["shares"].append(2)
    assert journal.notes().records == ({"shares": [1, math.inf]},)


@pytest.mark.parametrize(
    "record",
    [
        [1],
        {"a": (1, 2)},
        {"a": {1, 2}},
        {"a": {(1, 2): 3}},
        {"a": object()},
        {"a": 2**64},
        {"a": "\ud800"},
        {"a": bytes(MAX_RECORD_BYTES)},
    ],
    ids=["list", "tuple", "set", "key", "object", "large", "surrogate", "long"],
)
def test_what_would_not_come_back_the_same_is_refused(tmp_path, record):
    for folder in (None, tmp_path):
        journal = Journal(folder, "bank")
        with pytest.raises(LocalProtocolError, match="committed record"):
            journal.commit(record)
        journal.commit({"after": 1})
        journal.close()
        assert journal.notes().records == ({"after": 1},)
    assert reopened(tmp_path) == Notes(1, ({"after": 1},))


def nested(levels, inner):
    """Return a record of ``levels`` containers, of which the innermost is ``inner``."""
    for level in range(levels - 2):
        inner = [inner] if level % 2 else {"a": inner}
    return {"a": inner}


@pytest.mark.parametrize("inner", [[], {}])
def test_what_is_nested_too_deep_to_be_read_again_is_refused(tmp_path, inner):
    journal = Journal(tmp_path, "bank")
    for levels in (101, 950, 5000):
        with pytest.raises(LocalProtocolError, match="committed record is nested deeper than 100"):
            journal.commit(nested(levels, inner))
    journal.commit(nested(100, inner))
    journal.close()
    assert reopened(tmp_path) == Notes(1, (nested(100, inner),))


def test_every_opening_is_another_incarnation(tmp_path):
    assert [reopened(tmp_path).incarnation for _ in range(4)] == [0, 1, 2, 3]
    assert reopened(tmp_path, "shop").incarnation == 0


ODD = ["a:b", "a?b", "a b", "A b", "CON", "..", "x" * 300, "é", "中", "a\nb", "\ud800", "%2e", "*"]


def test_every_name_has_a_file_of_its_own(tmp_path):
    for index, name in enumerate(ODD):
        written(tmp_path, [{"index": index}], name)
    files = [path.name for path in tmp_path.iterdir()]
    assert len({file.lower() for file in files}) == len(ODD)
    assert all(file.isascii() and len(file) < 100 and file[0] != "." for file in files)
    for index, name in enumerate(ODD):
        assert reopened(tmp_path, name) == Notes(1, ({"index": index},))


# Damage


def test_a_journal_cut_short_anywhere_keeps_all_that_is_whole(tmp_path):
    file, ends = written(tmp_path)
    whole = file.read_bytes()
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        records = tuple(RECORDS[: sum(length >= end for end in ends[1:])])
        incarnation = 1 if length >= ends[0] else 0
        assert reopened(tmp_path) == Notes(incarnation, records)
        # What was torn is gone, and more can follow.
        written(tmp_path, [{"more": 1}])
        assert reopened(tmp_path) == Notes(incarnation + 2, (*records, {"more": 1}))


def test_any_other_damage_is_an_error_that_says_what_to_do(tmp_path):
    file, ends = written(tmp_path)
    whole = file.read_bytes()
    for place in range(ends[-2]):
        damaged = bytearray(whole)
        damaged[place] ^= 0x40
        file.write_bytes(damaged)
        with pytest.raises(CheckpointError, match=r"start a new run in a new folder"):
            Journal(tmp_path, "bank")
        assert file.read_bytes() == damaged  # nothing was cut off


def test_records_cannot_be_left_out_or_exchanged(tmp_path):
    file, ends = written(tmp_path)
    whole = file.read_bytes()
    start, one, two = whole[: ends[0]], whole[ends[0] : ends[1]], whole[ends[1] : ends[2]]
    for parts in ((start, two, one), (start, one, one, two), (start, two, whole[ends[2] :])):
        file.write_bytes(b"".join(parts))
        with pytest.raises(CheckpointError, match="damaged at byte"):
            Journal(tmp_path, "bank")


def test_room_that_the_disk_made_and_never_filled_is_a_torn_record(tmp_path):
    file, _ = written(tmp_path)
    file.write_bytes(file.read_bytes() + bytes(100))
    assert reopened(tmp_path) == Notes(1, tuple(RECORDS))


def test_a_length_is_checked_before_anything_of_that_length_is_read(tmp_path):
    file, ends = written(tmp_path)
    whole = bytearray(file.read_bytes())
    whole[ends[0] : ends[0] + 4] = b"\xff\xff\xff\xff"
    file.write_bytes(whole)
    with pytest.raises(CheckpointError, match="damaged"):
        Journal(tmp_path, "bank")


def test_another_file_is_not_overwritten(tmp_path):
    file, _ = written(tmp_path)
    file.write_bytes(b"something else entirely")
    with pytest.raises(CheckpointError, match="no journal of this version"):
        open_journals(tmp_path, ["shop", "bank"])
    assert file.read_bytes() == b"something else entirely"


@pytest.mark.skipif(sys.platform == "win32", reason="has no such locks")
def test_two_cannot_be_one_incarnation(tmp_path):
    journal = Journal(tmp_path, "bank")
    with pytest.raises(CheckpointError, match="is in use"):
        Journal(tmp_path, "bank")
    journal.close()
    assert reopened(tmp_path).incarnation == 1


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_journal_and_its_folders_are_flushed_before_its_first_record_and_each_after_it(
    tmp_path, monkeypatch
):
    flushed = []
    fsync = os.fsync

    def noted(descriptor):
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        flushed.append((path, path.stat().st_size if path.is_file() else None))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    folder = tmp_path / "journal"
    for _ in range(2):
        before = sum(file.stat().st_size for file in folder.glob("*"))
        flushed.clear()
        journal = Journal(folder, "bank")
        sizes = [journal.path.stat().st_size]
        start = before or len(MAGIC)
        opened = [(journal.path, start), (folder, None), (tmp_path, None)]
        assert flushed == [*opened, (journal.path, sizes[0])]
        assert sizes[0] > start
        for number in range(2):
            journal.commit({"number": number})
            sizes.append(journal.path.stat().st_size)
            assert flushed[-1] == (journal.path, sizes[-1])
        assert len(flushed) == 6
        journal.close()
    torn = journal.path.read_bytes() + b"torn"
    journal.path.write_bytes(torn)
    flushed.clear()
    Journal(folder, "bank").close()
    assert flushed[0] == (journal.path, len(torn) - 4)  # what was torn is gone for good


def test_after_a_write_that_failed_nothing_is_taken_any_more(tmp_path, monkeypatch):
    journal = Journal(tmp_path, "bank")
    journal.commit({"a": 1})

    def full(descriptor):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(Unwritten, match="No space left"):
            journal.commit({"b": 2})
    with pytest.raises(CheckpointError, match="takes no more"):
        journal.commit({"c": 3})
    assert journal.notes().records == ({"a": 1},)
    assert reopened(tmp_path) == Notes(1, ({"a": 1},))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_at_any_moment_nothing_acknowledged_is_lost_and_no_number_comes_twice(tmp_path):
    """What the process that is killed was told, it wrote down elsewhere."""
    calls = {"open", "mkdir", "write", "fsync", "truncate"}
    nth = 0
    lived = False
    while not lived:
        nth += 1
        folder = tmp_path / str(nth)
        folder.mkdir()

        def act(folder=folder):
            told = os.open(folder / "told", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
            for start in range(2):
                journal = Journal(folder / "journal", "bank")
                os.write(told, b"i%d\n" % journal.incarnation)
                for number in range(2):
                    journal.commit({"number": 2 * start + number})
                    os.write(told, b"c%d\n" % (2 * start + number))
                journal.close()

        lived = not killed(act, partial(die_before, nth, calls))
        told = (folder / "told").read_text().split() if (folder / "told").exists() else []
        numbers = [int(line[1:]) for line in told if line[0] == "i"]
        committed = [int(line[1:]) for line in told if line[0] == "c"]
        notes = reopened(folder / "journal") if (folder / "journal").exists() else None
        if notes is None:
            assert not told
            continue
        assert numbers == list(range(len(numbers)))
        assert notes.incarnation >= len(numbers)
        remembered = [record["number"] for record in notes.records]
        assert remembered[: len(committed)] == committed
        assert len(remembered) <= len(committed) + 1
    assert nth > 15


# Under the drivers


def careful(rounds=6):
    return [Careful("a", "b", rounds), Careful("b", "a", rounds)]


def outcome(roles):
    return [(role.total, role.seen) for role in roles]


@pytest.mark.parametrize("driver", [DRIVER, Processes()], ids=["simulate", "processes"])
def test_going_back_to_a_checkpoint_forgets_no_record(tmp_path, driver):
    journals = tmp_path / "journal"
    store = CheckpointStore(tmp_path / "checkpoint", {"run": "fingerprint"}, keep=100)
    DRIVER.run(careful(), Assignment(store=store, checkpoint_every=2, journals=journals))
    for round in (6, 4):
        for file in store.folder.glob(f"round-{round:08d}/*"):
            file.unlink()
    checkpoint = None
    for folder in sorted(store.folder.iterdir()):
        if not any(folder.iterdir()):
            folder.rmdir()
    checkpoint = store.latest()
    assert checkpoint.round == 2
    # From before round 2, with the six records of the incarnation before; then once more.
    for incarnation, count in ((1, 6), (2, 10)):
        again = careful()
        record = driver.run(again, Assignment(resume=checkpoint, journals=journals))
        assert [role.seen for role in again] == [[[0, 0], [incarnation, count]]] * 2
        for name in "ab":
            assert record.trace.notes[name].incarnation == incarnation
            assert [r["by"] for r in record.trace.notes[name].records] == [name] * count
        replayed = careful()
        files = sorted((f.name, f.read_bytes()) for f in journals.iterdir())
        repeated = Replay(record.trace).run(
            replayed, Assignment(resume=checkpoint, journals=journals)
        )
        assert outcome(replayed) == outcome(again)
        assert repeated.trace == record.trace
        assert sorted((f.name, f.read_bytes()) for f in journals.iterdir()) == files


def test_without_a_folder_all_drivers_remember_the_same_in_memory():
    outcomes = []
    for driver in (DRIVER, Processes()):
        roles = careful()
        record = driver.run(roles, Assignment())
        outcomes.append((outcome(roles), record.trace))
        replayed = careful()
        Replay(record.trace).run(replayed, Assignment())
        outcomes.append((outcome(replayed), record.trace))
    assert all(item == outcomes[0] for item in outcomes)


@pytest.mark.parametrize("driver", [DRIVER, Processes()], ids=["simulate", "processes"])
def test_a_record_is_on_disk_before_what_is_sent_after_it(tmp_path, driver):
    """The receiver looks into the sender's journal when it has the message."""

    async def sends(role):
        for round in range(5):
            await Commit({"round": round})
            await Send("b", "x", round, b"")

    async def looks(role):
        for round in range(5):
            await Receive(Expect("x", round, ("a",)))
            (file,) = tmp_path.glob("a-*.journal")
            copy = tmp_path / "copy"
            copy.mkdir(exist_ok=True)
            (copy / file.name).write_bytes(file.read_bytes())
            role.seen.append(len(reopened(copy, "a").records) > round)

    roles = [Scripted("a", sends, ["b"]), Scripted("b", looks)]
    driver.run(roles, Assignment(journals=tmp_path))
    assert roles[1].seen == [True] * 5


@pytest.mark.parametrize("driver", [DRIVER, Processes()], ids=["simulate", "processes"])
def test_a_damaged_journal_ends_the_run_before_anything_is_sent(tmp_path, driver):
    file, _ = written(tmp_path, name="b")
    file.write_bytes(b"x" + file.read_bytes()[1:])
    with pytest.raises(CheckpointError, match="start a new run in a new folder"):
        driver.run(careful(), Assignment(journals=tmp_path))


def behind(journals, how):
    """Take something from b's journal, of two incarnations and five records each time."""
    (file,) = journals.glob("b-*.journal")
    if how == "gone":
        file.unlink()
    elif how == "all gone":
        for one in journals.iterdir():
            one.unlink()
        journals.rmdir()
    elif how == "empty":
        file.write_bytes(b"")
    else:
        file.unlink()
        counts = {"a record less": (5, 0, 4), "an incarnation less": (10,)}[how]
        for count in counts:
            written(journals, [{"round": number} for number in range(count)], "b")


LOSSES = {
    "gone": "it is missing",
    "all gone": "it is missing",
    "empty": "it has 0 records of 10",
    "a record less": "it has 9 records of 10",
    "an incarnation less": "its last incarnation is 0, not 1 or later",
}


def resumable(tmp_path, driver):
    """Return a checkpoint of two incarnations, in whose journals each role has ten records."""
    journals = tmp_path / "journal"
    store = CheckpointStore(tmp_path / "checkpoint", {"run": "fingerprint"})
    settings = {"store": store, "journals": journals}
    driver.run(careful(20), Assignment(**settings, stop_before=5))
    again = Assignment(**settings, stop_before=10, resume=store.latest())
    driver.run(careful(20), again)
    return store.latest(), journals


@pytest.mark.parametrize("how", list(LOSSES))
@pytest.mark.parametrize("driver", [DRIVER, Processes()], ids=["simulate", "processes"])
def test_a_journal_that_is_behind_a_checkpoint_ends_the_run(tmp_path, driver, how):
    checkpoint, journals = resumable(tmp_path, driver)
    behind(journals, how)
    files = {file: file.read_bytes() for file in journals.glob("b-*")}
    for again in (DRIVER, Processes()):
        roles = careful(20)
        match = f"b-.*{LOSSES[how]}.* start a new run in a new folder"
        with pytest.raises(CheckpointError, match="not what it was") as refused:
            again.run(roles, Assignment(resume=checkpoint, journals=journals))
        if how != "all gone":
            assert re.search(match, str(refused.value))
        # It has no new incarnation, and the next attempt is refused as well.
        assert {file: file.read_bytes() for file in journals.glob("b-*")} == files


@pytest.mark.parametrize("driver", [DRIVER, Processes()], ids=["simulate", "processes"])
def test_a_journal_that_is_ahead_of_a_checkpoint_or_in_memory_is_none_of_its_business(
    tmp_path, driver
):
    checkpoint, journals = resumable(tmp_path, driver)
    assert {role["journal"] == [1, 10] for role in checkpoint.account["roles"].values()} == {True}
    for incarnation in (2, 3):
        roles = careful(20)
        driver.run(roles, Assignment(resume=checkpoint, journals=journals))
        assert roles[0].seen[-1] == [incarnation, 10 * (incarnation - 1)]
    behind(journals, "all gone")
    store = CheckpointStore(tmp_path / "memory", {"run": "fingerprint"})
    driver.run(careful(20), Assignment(resume=checkpoint, store=store, stop_before=12))
    driver.run(careful(20), Assignment(resume=store.latest()))
    # What is known of a journal on disk is not forgotten by a run without one.
    with pytest.raises(CheckpointError, match="it is missing"):
        driver.run(careful(20), Assignment(resume=store.latest(), journals=journals))


def test_what_a_checkpoint_cannot_know_is_not_noticed(tmp_path):
    """As the documentation says: records after the checkpoint may be lost."""
    checkpoint, journals = resumable(tmp_path, DRIVER)
    (file,) = journals.glob("b-*.journal")
    short = file.read_bytes()
    DRIVER.run(careful(20), Assignment(resume=checkpoint, journals=journals))
    assert len(file.read_bytes()) > len(short)
    file.write_bytes(short)
    DRIVER.run(careful(20), Assignment(resume=checkpoint, journals=journals))


def test_a_trace_without_notes_cannot_answer():
    record = DRIVER.run(careful(), Assignment())
    trace = type(record.trace)(record.trace.decisions)
    with pytest.raises(LocalProtocolError, match="what a remembered"):
        Replay(trace).run(careful(), Assignment())
