"""What had left when a run was killed is counted, whatever killed it and however often."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import tracemalloc
import types
from pathlib import Path

import pytest

from colonnade.checkpoints import CheckpointStore
from colonnade.codecs import TopK
from colonnade.departures import Departures, Found, Mark, lost_since
from colonnade.drivers import Assignment, Processes, Simulate
from colonnade.drivers import driver as drivers
from colonnade.drivers.account import Account
from colonnade.drivers.player import Player, Task
from colonnade.effects import Boundary, Commit, Expect, Receive, Send
from colonnade.errors import CheckpointError, RoleFailed, Unwritten
from colonnade.flows import Limits
from colonnade.journals import Journal
from colonnade.ledger import Entry, Ledger
from colonnade.methods import efvfl
from colonnade.models import Concat
from colonnade.reports import comparison_table, write_page
from colonnade.run_read import load_run
from colonnade.training import Training, Watcher
from colonnade.wire import Purpose
from test_training import SIMULATE, assert_same, problem
from toys import Scripted

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="needs signals"),
    pytest.mark.usefixtures("no_pictures"),
]

METHOD = efvfl(TopK(0.3), None, Concat(), "shared", 2)
TRAINING = Training(epochs=3, batch_size=32, evaluation_rows=25, checkpoint_every=5)
BOTH = [SIMULATE, Processes()]
PARTS = ("bytes_up", "bytes_down", "bytes_evaluation", "bytes_setup")


class Crashed(Exception):
    """Something went wrong that nobody foresaw."""


def crash():
    raise Crashed


def kill():
    os.kill(os.getpid(), signal.SIGKILL)


def dies_at(place, how):
    """A watcher under which the run dies when a role enters a round."""
    return Watcher(on_round=lambda name, round, sent: (name, round) == place and how())


def train(out, driver=SIMULATE, **more):
    return problem(3, True, Concat()).train(METHOD, TRAINING, driver, out=out, **more)


@pytest.fixture
def handed_over(monkeypatch):
    """Bytes that streams carry, of each message that a role of this process handed over."""
    sizes = []
    stamp = drivers.Outbox.stamp

    def noted(outbox, send, now):
        message, header, row = stamp(outbox, send, now)
        sizes.append(4 + len(header) + len(message.body))
        return message, header, row

    monkeypatch.setattr(drivers.Outbox, "stamp", noted)
    return sizes


@pytest.mark.parametrize(
    "places",
    [
        [("holder", 8)],
        [("party_1", 2)],  # before the first checkpoint
        [("holder", 7), ("holder", 8)],  # twice after the same checkpoint
        [("party_0", 3), ("holder", 9), ("party_2", 13)],
    ],
    ids=["once", "before a checkpoint", "twice after one checkpoint", "three times"],
)
def test_all_that_left_is_in_the_summary_however_often_a_run_crashed(tmp_path, places, handed_over):
    whole = train(tmp_path / "whole")
    handed_over.clear()
    out = tmp_path / "run"
    for place in places:
        with pytest.raises(Crashed):
            train(out, resume=out.exists(), watcher=dies_at(place, crash))
    run = train(out, resume=True)
    assert_same(whole, run)
    s = run.summary
    assert s["bytes_framed"] == run.ledger.framed_bytes() == sum(handed_over)
    assert s["messages"] == len(handed_over)
    lost = [entry for entry in run.ledger if entry.lost]
    assert s["messages_lost"] == len(lost) == len(handed_over) - len(whole.ledger) > 0
    assert s["bytes_framed"] - sum(e.framed_bytes for e in lost) == whole.summary["bytes_framed"]
    assert s["bytes_lost"] == run.ledger.bytes() - sum(s[part] for part in PARTS) > 0
    for name in (*PARTS, "messages_discarded"):
        assert s[name] == whole.summary[name], name
    for name in ("bytes_up", "bytes_down"):
        assert run.history[name].to_list() == whole.history[name].to_list()
    again = load_run(out)
    assert list(again.ledger) == list(run.ledger)


def test_what_a_kill_left_behind_is_what_a_crash_at_that_moment_does(tmp_path):
    place = ("holder", 8)
    with pytest.raises(Crashed):
        train(tmp_path / "crashed", watcher=dies_at(place, crash))
    crashed = train(tmp_path / "crashed", resume=True).summary
    script = (
        "import sys, pathlib, test_departures as t\n"
        "t.train(pathlib.Path(sys.argv[1]), report=False, watcher=t.dies_at(('holder', 8), t.kill))"
    )
    out = tmp_path / "killed"
    ended = subprocess.run(
        [sys.executable, "-c", script, str(out)], cwd=Path(__file__).parent, check=False
    )
    assert ended.returncode == -signal.SIGKILL
    killed = train(out, resume=True).summary
    for name in ("messages", "messages_lost", "bytes_lost", "bytes_framed", *PARTS):
        assert killed[name] == crashed[name], name


class Pair:
    """Sends a word a round, and waits for the other's; may die when it has that of a round."""

    def __init__(self, name, dies_in=-1, how=kill):
        self.name, self.other = name, "b" if name == "a" else "a"
        self.round = 0
        self.dies_in, self.how = dies_in, how

    @property
    def peers(self):
        return (self.other,)

    async def run(self):
        while self.round < 12:
            await Boundary(self.round)
            if self.name == "b":
                await Send("a", "word", self.round, bytes(100 + self.round))
            await Receive(Expect("word", self.round, (self.other,)))
            if self.round == self.dies_in:
                self.how()
            if self.name == "a":
                await Send("b", "word", self.round, bytes(100 + self.round))
            self.round += 1
        await Boundary(self.round)

    def state_dict(self):
        return {"round": self.round}

    def load_state_dict(self, state):
        self.round = state["round"]


class Committing(Pair):
    """One of a pair that commits a record before each word."""

    async def run(self):
        while self.round < 12:
            await Boundary(self.round)
            await Commit({"round": self.round})
            await Send(self.other, "word", self.round, b"")
            await Receive(Expect("word", self.round, (self.other,)))
            self.round += 1
        await Boundary(self.round)


def committing():
    return [Committing("a"), Committing("b")]


@pytest.mark.parametrize("ends", ["simulate", "processes"])
@pytest.mark.parametrize("begins", ["simulate", "processes"])
def test_a_role_that_was_killed_had_sent_what_its_file_says(tmp_path, begins, ends):
    drivers = {"simulate": (Simulate(), crash), "processes": (Processes(), kill)}
    store = CheckpointStore(tmp_path / "checkpoint", {"run": "fingerprint"})

    def go_on(driver, dies_in=-1, how=kill):
        assignment = Assignment(
            store=store,
            checkpoint_every=5,
            resume=store.latest(),
            departures=tmp_path / "departures",
        )
        return driver.run([Pair("a", dies_in, how), Pair("b")], assignment)

    driver, how = drivers[begins]
    for dies_in in (3, 7, 7):
        with pytest.raises(RoleFailed):
            go_on(driver, dies_in, how)
    record = go_on(drivers[ends][0])
    lost = sorted((e.sender, e.round) for e in record.ledger if e.lost)
    # In the round in which a died b had sent its word, and a had not. Died it has before any
    # checkpoint, and twice after the one before round 5.
    before = [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1), ("b", 2), ("b", 3)]
    after = [("a", 5), ("a", 6), ("b", 5), ("b", 6), ("b", 7)]
    assert lost == sorted(before + 2 * after)
    assert [(e.sender, e.round) for e in record.ledger if not e.lost] == [
        (name, round) for name in "ab" for round in range(12)
    ]


@pytest.mark.parametrize("driver", BOTH, ids=lambda driver: driver.label)
def test_nothing_is_lost_where_a_run_is_interrupted_or_completes(tmp_path, driver):
    whole = train(None)
    out = tmp_path / "run"
    seen = []
    watcher = Watcher(
        on_round=lambda name, round, sent: seen.append(round), interrupted=lambda: len(seen) > 20
    )
    part = train(out, driver, watcher=watcher)
    rest = train(out, driver, resume=True, stop_before=part.summary["rounds"] + 1)
    rest = train(out, driver, resume=True)
    again = train(out, driver, resume=True)
    for run in (part, rest, again):
        assert (run.summary["messages_lost"], run.summary["bytes_lost"]) == (0, 0)
    assert rest.summary["bytes_framed"] == whole.summary["bytes_framed"]
    assert_same(whole, again)


def test_a_party_whose_process_is_killed_is_accounted_for(tmp_path, monkeypatch):
    whole = train(None)
    out = tmp_path / "run"

    def at_the_seventh_batch(module, inputs):
        module.batches = getattr(module, "batches", 0) + (module.training and len(inputs[0]) > 2)
        if module.batches == 13 and "DOOMED" in os.environ:  # two steps a round
            kill()

    def made():
        federation = problem(3, True, Concat())
        federation.parties[1].bottom.register_forward_pre_hook(at_the_seventh_batch)
        return federation

    monkeypatch.setenv("DOOMED", "yes")
    with pytest.raises(RoleFailed, match=r"died \(exit code -9\)"):
        made().train(METHOD, TRAINING, Processes(), out=out)
    monkeypatch.delenv("DOOMED")
    run = made().train(METHOD, TRAINING, Processes(), out=out, resume=True)
    assert_same(whole, run)
    lost = {(e.sender, e.receiver, e.kind, e.round) for e in run.ledger if e.lost}
    assert ("party_1", "holder", "embedding", 5) in lost
    assert ("party_1", "holder", "embedding", 6) not in lost
    assert run.summary["messages_lost"] == len(lost)
    extra = sum(e.framed_bytes for e in run.ledger if e.lost)
    assert run.summary["bytes_framed"] == whole.summary["bytes_framed"] + extra


def test_tables_and_page_tell_what_was_lost(tmp_path):
    out = tmp_path / "run"
    with pytest.raises(Crashed):
        train(out, watcher=dies_at(("holder", 8), crash))
    run = train(out, resume=True)
    s = run.summary
    told = str(comparison_table({"mine": run}).caption)
    assert f"{s['bytes_lost'] / 1e3:.1f} kB lost to a crash and sent again" in told
    assert f"{s['bytes_setup']} B sent to set up" in told
    page = tmp_path / "page.html"
    write_page(run, page)
    text = page.read_text(encoding="utf-8")
    assert "lost to a crash" in text
    assert f"in {s['messages_lost']} messages, sent again" in text
    assert "training, lost" in text


# The files

ROW = ("a", "b", "x", 0, 4, 7, 10, 31, 5)
ENTRY = Entry("a", "b", "x", Purpose.TRAINING, 4, 7, 10, 31, 5, lost=True)


def filled(folder, *sequences):
    file = Departures(folder, "a")
    for sequence in sequences:
        file.note((*ROW[:5], sequence, *ROW[6:]))
    mark = file.mark()
    file.close()
    return mark


def noted(folder, *extents):
    """Note a message for each ``extent`` of a journal; return what the file says of it then."""
    file = Departures(folder, "a")
    for extent in extents:
        file.note(ROW, extent)
    file.close()
    return lost_since(folder, "a", Mark(), 0, ("a", "b")).journal


def sequences(folder, mark=Mark(), sequence=0, complete=True):  # noqa: B008  # a value
    entries, is_all, _ = lost_since(folder, "a", mark, sequence, ("a", "b"))
    assert is_all is complete
    return [entry.sequence for entry in entries]


def test_what_is_beyond_a_mark_and_not_before_the_number_was_lost(tmp_path):
    assert sequences(tmp_path) == []
    mark = filled(tmp_path, 7)
    assert lost_since(tmp_path, "a", Mark(), 0, ("b",)) == ([ENTRY], True, None)
    # Number 8 was handed over before the checkpoint, and left after the mark.
    filled(tmp_path, 8, 9, 10, 9)
    assert sequences(tmp_path, mark, 9) == [9, 10, 9]
    assert sequences(tmp_path, Mark(mark.size), 9) == [9, 10, 9]  # of an older checkpoint
    assert sequences(tmp_path / "elsewhere", mark, 9, complete=False) == []


def test_a_file_that_was_moved_away_or_cut_off_is_told_by_numbers(tmp_path):
    mark = filled(tmp_path, *range(6))
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert sequences(tmp_path, mark, 2, complete=False) == [2]
    # Moved away; what the run sent again is in a new one, be it shorter, longer or just as long.
    for more in (3, 6, 9):
        path.unlink()
        filled(tmp_path, *range(6, 6 + more))
        assert sequences(tmp_path, mark, 6, complete=False) == [*range(6, 6 + more)]


def test_a_run_that_goes_on_without_the_files_counts_the_rest_and_says_so(tmp_path):
    whole = train(tmp_path / "whole").summary
    moved, kept, again = (tmp_path / name for name in ("moved", "kept", "again"))
    with pytest.raises(Crashed):
        train(moved, watcher=dies_at(("holder", 8), crash))
    shutil.copytree(moved, kept)
    shutil.copytree(moved, again)
    shutil.rmtree(moved / "departures")
    framed = {}
    for out in (moved, kept):
        for place in (("holder", 9), ("party_2", 14)):  # the first before another checkpoint
            with pytest.raises(Crashed):
                train(out, resume=True, watcher=dies_at(place, crash))
        summary = train(out, resume=True).summary
        framed[out] = summary["bytes_framed"]
        told = [text.split()[3] for text in summary["warnings"] if "could be counted" in text]
        assert told == (["party_0", "party_1", "party_2", "holder"] if out == moved else [])
    first = train(again, resume=True).summary["bytes_framed"] - whole["bytes_framed"]
    assert framed[kept] - framed[moved] == first > 0


def test_a_line_that_does_not_fit_is_no_message_and_the_last(tmp_path):
    """As on a full disk, where the system writes a part of a line and says so."""
    script = (
        "import resource, signal, sys, pathlib, test_departures as t\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "file = t.Departures(pathlib.Path(sys.argv[1]), 'a')\n"
        "most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (130, most))\n"
        "file.note(t.ROW); file.note(t.ROW)\n"
        "for limit in (130, most):\n"  # also when there is room again
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, most))\n"
        "    try: file.note(t.ROW)\n"
        "    except t.Unwritten as error: print('make room' in str(error))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        cwd=Path(__file__).parent,
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["True", "True"]
    assert sequences(tmp_path) == [7, 7]
    filled(tmp_path, 8)
    assert sequences(tmp_path) == [7, 7, 8]


@pytest.mark.parametrize("driver", ["simulator", "player"])
def test_what_cannot_be_opened_leaves_nothing_open(tmp_path, monkeypatch, driver):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    role = Scripted("bank", None)
    where = {"journals": tmp_path / "journals", "departures": tmp_path / "departures"}

    def fails():
        if driver == "simulator":
            Simulate().run([role], Assignment(**where))
        task = Task(role, None, Account(), [], 9, 0, Limits(), False, **where, shows=False)
        Player(task, types.SimpleNamespace(peers=()))

    before = sorted(Path("/dev/fd").iterdir())
    monkeypatch.setattr(os, "truncate", full)
    with pytest.raises(Unwritten):
        fails()
    assert sorted(Path("/dev/fd").iterdir()) == before
    monkeypatch.undo()
    Journal(where["journals"], "bank").close()  # nobody holds it


@pytest.mark.parametrize("folder", [None, "departures"])
def test_nothing_leaves_when_the_file_is_closed(tmp_path, folder):
    departures = Departures(folder and tmp_path / folder, "bank")
    departures.close()
    with pytest.raises(ConnectionError, match="nothing leaves any more"):
        departures.note(("bank", "shop", "x", 0, 0, 0, 10, 20, None))
    departures.close()


def test_what_no_run_of_ours_wrote_is_neither_cut_off_nor_added_to(tmp_path):
    filled(tmp_path, 1)
    (path,) = tmp_path.iterdir()
    notes = tmp_path.parent / "notes.txt"
    for content in (b"my own notes", b"my own notes\nand more", path.read_bytes()):
        notes.write_bytes(content)
        path.unlink()
        path.symlink_to(notes)
        for use in (sequences, filled):
            with pytest.raises((CheckpointError, Unwritten), match=r"cannot be (read|written)"):
                use(tmp_path)
        path.unlink()
        if content.startswith(b"my"):
            path.write_bytes(content)
            for use in (sequences, filled):
                with pytest.raises(CheckpointError, match="is damaged"):
                    use(tmp_path)
            assert path.read_bytes() == content
        path.touch()
        assert notes.read_bytes() == content
    path.unlink()
    path.mkdir()
    for use in (sequences, filled):
        with pytest.raises(
            (CheckpointError, Unwritten), match=r"cannot be (read|written): Is a directory"
        ):
            use(tmp_path)


def test_a_line_that_was_cut_short_is_of_a_message_that_had_not_left(tmp_path):
    filled(tmp_path, 1, 2)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    for length in range(len(whole) + 1):
        path.write_bytes(whole[:length])
        here = 2 if length == len(whole) else int(length >= len(whole) // 2)
        assert sequences(tmp_path) == [1, 2][:here]
    path.write_bytes(whole[:-3])
    filled(tmp_path, 3)
    assert sequences(tmp_path) == [1, 3]


def test_room_that_the_disk_had_made_for_a_line_is_none(tmp_path):
    """A file may end in zeros after a power cut, and the run goes on."""
    filled(tmp_path, 1)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    for zeros in (1, 100, 2**16):
        path.write_bytes(whole + bytes(zeros))
        assert sequences(tmp_path) == [1]
    filled(tmp_path, 2)
    assert sequences(tmp_path) == [1, 2]
    for damaged in (whole + bytes(9) + whole, whole[:-1] + bytes(1)):
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError):
            sequences(tmp_path)


def test_a_file_says_how_far_the_journal_had_come(tmp_path):
    assert noted(tmp_path) is None
    filled(tmp_path, 7, 8)  # as files of before are, and those of runs without journals
    (path,) = tmp_path.iterdir()
    before = path.read_bytes()
    assert noted(tmp_path) is None
    # Lines of several threads may change places.
    assert noted(tmp_path, (0, 3), (0, 5), (0, 4)) == (0, 5)
    assert noted(tmp_path, (1, 5), None) == (1, 5)
    assert path.read_bytes().startswith(before)
    assert len(sequences(tmp_path)) == 7
    # A line that is cut short was of a message that had not left.
    assert noted(tmp_path, (1, 9)) == (1, 9)
    whole = path.read_bytes()
    last = whole.splitlines(keepends=True)[-1]
    for length in range(len(last)):
        path.write_bytes(whole[: len(whole) - len(last) + length])
        assert lost_since(tmp_path, "a", Mark(), 0, ("b",)).journal == (1, 5)


@pytest.mark.parametrize("driver", [Simulate(), Processes()], ids=lambda driver: driver.label)
@pytest.mark.parametrize("has_checkpoint", [True, False])
def test_a_journal_that_is_behind_what_left_ends_the_run(tmp_path, driver, has_checkpoint):
    """As one from a backup is, also where the checkpoints are from there too."""
    store = CheckpointStore(tmp_path / "checkpoint", {"run": "fingerprint"})
    journals, departures = tmp_path / "journal", tmp_path / "departures"
    more = {"journals": journals, "departures": departures}

    def go_on(driver=driver, **settings):
        driver.run(committing(), Assignment(resume=store.latest(), **more, **settings))

    driver.run(committing(), Assignment(store=store, stop_before=3, **more))
    shutil.copytree(journals, tmp_path / "backup")
    go_on(stop_before=8)  # without a checkpoint at its end, as where it was killed there
    if not has_checkpoint:
        shutil.rmtree(tmp_path / "checkpoint")
    newest = shutil.copytree(journals, tmp_path / "newest")
    shutil.rmtree(journals)
    shutil.copytree(tmp_path / "backup", journals)
    files = {file: file.read_bytes() for file in [*journals.iterdir(), *departures.iterdir()]}
    for again in (Simulate(), Processes()):
        with pytest.raises(
            CheckpointError, match=r"journal .* it has 3 records of 8; .*newest copy"
        ):
            go_on(again)
        assert {file: file.read_bytes() for file in files} == files
    shutil.rmtree(journals)
    shutil.copytree(newest, journals)
    go_on()


@pytest.mark.parametrize(
    "line",
    [
        b"{}",
        b"[]",
        b"\xff",
        b'["a","\xff","x",0,0,1,1,2,3]',
        b"[" * 100_000,
        b'["a","b","x",9,0,0,1,2,3]',
        b'["a","b","x",0,0,"1",1,2,3]',
        b'["b","a","x",0,0,1,1,2,3]',
        b'["a","c","x",0,0,1,1,2,3]',
        b'["a","b","x",0,0,1,-1,2,3]',
        b'["a","b","x",0,0,1,2,2,3]',
        b'["a","b","x",0,0,1,1,1e30,3]',
        b'["a","b","x",0,0,-1,1,2,3]',
        b'["a","b","x",0,0,1,1,1%s,3]' % (b"0" * 30),
        b'["a","b","x",0,0,1,1,2,-3]',
        b'["a","b","x",0,0,1,1,2,3,[4]]',
        b'["a","b","x",0,0,1,1,2,3,[0,-4]]',
        b'["a","b","x",0,0,1,1,2,3,[0,4],5]',
        b'["a","b","x",0,0,1,1,2]',
        bytes(2**21),
    ],
)
def test_a_damaged_file_is_refused_with_the_remedy(tmp_path, line):
    filled(tmp_path, 1)
    (path,) = tmp_path.iterdir()
    path.write_bytes(line + b"\n" + path.read_bytes())
    with pytest.raises(CheckpointError, match=r"is damaged .* move it away to go on without"):
        sequences(tmp_path)


def test_no_bit_of_what_was_lost_changes_unnoticed(tmp_path):
    filled(tmp_path, 1)
    mark = filled(tmp_path, 2)
    filled(tmp_path, 3, 4, 5)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    last = len(whole) - len(whole.splitlines(keepends=True)[-1])
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError, match="is damaged"):
            lost_since(tmp_path, "a", mark, 3, ("b",))
    path.write_bytes(whole[:last])  # as of a process that was killed before
    assert sequences(tmp_path, mark, 3) == [3, 4]


@pytest.mark.parametrize("order", ["0124", "01334", "01324", "1234", "00123", "4"])
def test_no_line_of_what_left_is_gone_from_among_others_or_elsewhere(tmp_path, order):
    filled(tmp_path, *range(5))
    (path,) = tmp_path.iterdir()
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[int(each)] for each in order))
    for read in (lambda: sequences(tmp_path), lambda: Departures(tmp_path, "a")):
        with pytest.raises(CheckpointError, match="not those that were written, one behind"):
            read()


def test_a_file_of_before_lines_had_digests_is_gone_on_with(tmp_path):
    filled(tmp_path, 1)
    (path,) = tmp_path.iterdir()
    for older in (b'["a","b","x",0,0,%d,1,2,3]\n', b'["a","b","x",0,0,%d,1,2,3,[0,4]]\n'):
        path.write_bytes(older % 1 + older % 2)
        assert sequences(tmp_path) == [1, 2]
        filled(tmp_path, 3, 4)
        assert sequences(tmp_path) == [1, 2, 3, 4]
        whole = path.read_bytes()
        path.write_bytes(whole + older % 5)
        with pytest.raises(CheckpointError, match="is damaged"):
            sequences(tmp_path)
        path.write_bytes(whole.replace(older % 2, b""))
        with pytest.raises(CheckpointError, match="is damaged"):
            sequences(tmp_path)


def test_a_long_file_without_lines_is_not_held(tmp_path):
    filled(tmp_path, 1)
    (path,) = tmp_path.iterdir()
    os.truncate(path, 2**33)
    with pytest.raises(CheckpointError, match=r"is damaged \(it has a line that no message has"):
        sequences(tmp_path)


def test_what_is_known_of_a_long_file_is_not_kept(tmp_path):
    """A million messages took 0.75 GB as a run went on."""
    departures = Departures(tmp_path, "a")
    for sequence in range(10_000):
        departures.note(ENTRY._replace(sequence=sequence)[:9])
    mark = departures.mark()
    departures.close()
    tracemalloc.start()
    try:
        assert lost_since(tmp_path, "a", mark, 10_000, "b") == Found([], True, None)
        Departures(tmp_path, "a").close()
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 2**17 < mark.size


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    place = tmp_path / "file"
    place.write_text("")
    with pytest.raises(Unwritten, match=r"cannot be written: .*; something else is in its place"):
        Departures(place, "a")


def test_a_ledger_keeps_what_was_lost_beside_what_replaced_it():
    again = ENTRY._replace(lost=False, nanoseconds=9)
    ledger = Ledger([again, ENTRY])
    ledger.discard("a", 7)
    assert list(ledger) == [ENTRY, again._replace(discarded=True)]
    assert len(ledger) == 2
    assert (ledger.bytes(), ledger.framed_bytes()) == (20, 62)
    assert ledger.bytes(lambda entry: entry.lost) == 10
    assert ledger.without_time() == [again._replace(discarded=True, nanoseconds=None)]
    assert list(Ledger.from_frame(ledger.frame())) == list(ledger)
