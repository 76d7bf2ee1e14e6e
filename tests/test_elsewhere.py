"""Roles that are cast in their own process: the same run, and nobody else's bytes in memory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch

from colonnade.checkpoints import CheckpointStore
from colonnade.drivers import Assignment, Elsewhere, Processes, Replay, control
from colonnade.errors import CheckpointError, ConfigurationError, LocalProtocolError, RoleFailed
from test_journals import reopened
from test_simulate import DRIVER
from toy_elsewhere import (
    NAMES,
    Keeper,
    cast_in_a_new_process,
    cast_writing,
    found_in_memory,
    look_around,
    refuse,
    write_total,
)
from toys import Careful, Counter

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="connects by file descriptors")


def elsewhere(folder, name, peer, rounds=12, ahead=2):
    cast = partial(Counter, name, peer, rounds, ahead)
    return Elsewhere(name, (peer,), cast, partial(write_total, folder))


def counters():
    return [Counter("a", "b", 12, 2), Counter("b", "a", 12, 2)]


def totals(folder):
    return [int((folder / name).read_text().split()[0]) for name in "ab"]


def untimed(history):
    return [{**row, "seconds": 0} for row in history]


def test_two_roles_cast_elsewhere_play_the_same_run(tmp_path):
    whole = counters()
    expected = DRIVER.run(whole, Assignment())
    roles = [elsewhere(tmp_path, "a", "b"), elsewhere(tmp_path, "b", "a")]
    record = Processes().run(roles, Assignment())
    assert totals(tmp_path) == [role.total for role in whole]
    assert record.ledger.without_time() == expected.ledger.without_time()
    assert untimed(record.history) == untimed(expected.history)
    assert (record.completed, record.round) == (True, 12)
    pids = {int((tmp_path / name).read_text().split()[1]) for name in "ab"}
    assert len(pids | {os.getpid()}) == 3
    replayed = counters()
    Replay(record.trace).run(replayed, Assignment())
    assert [role.total for role in replayed] == totals(tmp_path)


def test_one_elsewhere_and_one_here_stop_and_go_on(tmp_path):
    whole = counters()
    expected = DRIVER.run(whole, Assignment())
    store = CheckpointStore(tmp_path / "checkpoint", {"run": "fingerprint"})

    def roles():
        return [elsewhere(tmp_path, "a", "b"), Counter("b", "a", 12, 2)]

    part = Processes().run(roles(), Assignment(store=store, stop_before=5))
    assert (part.completed, part.round) == (False, 5)
    assert not (tmp_path / "a").exists()  # it has not finished
    again = roles()
    rest = Processes().run(again, Assignment(store=store, resume=store.latest()))
    assert rest.completed
    assert again[1].total == whole[1].total
    assert int((tmp_path / "a").read_text().split()[0]) == whole[0].total
    assert rest.ledger.without_time() == expected.ledger.without_time()


def test_without_a_store_its_state_and_notes_stay_with_it(tmp_path, monkeypatch):
    heard = []
    hear = control.from_player

    def listen(pipe):
        heard.append(hear(pipe))
        return heard[-1]

    monkeypatch.setattr(control, "from_player", listen)
    journals = tmp_path / "journal"
    roles = [
        Elsewhere(name, (peer,), partial(Careful, name, peer, 5))
        for name, peer in (("a", "b"), ("b", "a"))
    ]
    record = Processes().run(roles, Assignment(stop_before=3, journals=journals))
    assert not record.completed
    saved = [message for message in heard if isinstance(message, control.Saved)]
    played = [message for message in heard if isinstance(message, control.Played)]
    assert len(saved) == len(played) == 2
    assert [message.state for message in saved + played] == [b""] * 4
    assert record.trace.notes == {}
    with pytest.raises(LocalProtocolError, match="stayed with it"):
        Replay(record.trace).run([Careful("a", "b", 5), Careful("b", "a", 5)], Assignment())
    assert [len(reopened(journals, name).records) for name in "ab"] == [3, 3]


def test_a_journal_elsewhere_that_is_behind_a_checkpoint_ends_the_run(tmp_path):
    store = CheckpointStore(tmp_path / "checkpoint", {"run": "fingerprint"})
    settings = {"store": store, "journals": tmp_path / "journal"}

    def roles():
        cast = partial(Careful, "a", "b", 8)
        return [Elsewhere("a", ("b",), cast), Careful("b", "a", 8)]

    Processes().run(roles(), Assignment(**settings, stop_before=3))
    (file,) = (tmp_path / "journal").glob("a-*")
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    again = Assignment(**settings, resume=store.latest())
    with pytest.raises(CheckpointError, match="it has 2 records of 3"):
        Processes().run(roles(), again)
    assert file.read_bytes() == whole[:-1]
    file.write_bytes(whole)
    assert Processes().run(roles(), again).completed
    assert reopened(tmp_path / "journal", "a").incarnation == 2


def test_a_role_elsewhere_inherits_no_memory(tmp_path, monkeypatch):
    """It is spawned, whatever the others are; a fork would hold what this process filled in."""
    monkeypatch.setattr("toy_elsewhere.HERE", ["what is only here"])
    monkeypatch.setattr("colonnade.drivers.simulate.planted", True, raising=False)
    roles = [
        Elsewhere("a", ("b",), partial(cast_in_a_new_process, tmp_path, "a", "b")),
        Counter("b", "a", 12, 2),
    ]
    assert Processes().run(roles, Assignment()).completed
    assert json.loads((tmp_path / "a cast").read_text()) == [[], False]


def test_what_it_is_cast_with_is_a_copy_there(tmp_path):
    given, files = torch.ones(9), []
    for _ in range(2):  # the first starts multiprocessing's own tracker, which stays
        roles = [
            Elsewhere("a", ("b",), partial(cast_writing, given, "a", "b")),
            Counter("b", "a", 12, 2),
        ]
        assert Processes().run(roles, Assignment()).completed
        files.append(len(list(Path("/proc/self/fd").iterdir())))
    assert files[1] == files[0]
    assert torch.equal(given, torch.ones(9))
    assert not given.is_shared()


def test_what_goes_wrong_there_is_raised_here(tmp_path):
    b = Counter("b", "a", 12, 2)
    wrong = Elsewhere("a", ("b",), partial(Counter, "c", "b", 12))
    with pytest.raises(ConfigurationError, match="'a' was described, but 'c' was cast"):
        Processes().run([wrong, b], Assignment())
    lonely = Elsewhere("a", (), partial(Counter, "a", "b", 12))
    with pytest.raises(ConfigurationError, match="cast with the peers b"):
        Processes().run([lonely, Counter("b", "a", 12)], Assignment())
    unfinished = Elsewhere("a", ("b",), partial(Counter, "a", "b", 12, 2), refuse)
    with pytest.raises(RoleFailed, match="a failed: OSError: the disk is full"):
        Processes().run([unfinished, Counter("b", "a", 12, 2)], Assignment())


def test_a_name_is_one_roles_elsewhere_and_here(tmp_path):
    for roles in (
        [elsewhere(tmp_path, "a", "b"), elsewhere(tmp_path, "a", "b"), Counter("b", "a", 12, 2)],
        [elsewhere(tmp_path, "a", "b"), Counter("a", "b", 12, 2), Counter("b", "a", 12, 2)],
    ):
        with pytest.raises(ConfigurationError, match="several roles have the name 'a'"):
            Processes().run(roles, Assignment(journals=tmp_path / "journal"))
    assert not list(tmp_path.iterdir())  # nobody was started


class Unwilling:
    def __call__(self, *_):
        raise AssertionError("was called")

    def __reduce__(self):
        raise ValueError("is a secret")


@pytest.mark.parametrize(
    "function",
    [lambda: Counter("a", "b", 12), partial(Counter, lambda: "a"), Unwilling()],
    ids=["lambda", "argument", "refuses"],
)
def test_what_cannot_be_handed_to_its_process_is_refused_in_words(function):
    described = Elsewhere("a", ("b",), partial(Counter, "a", "b", 12))
    for what in ("cast", "finish"):
        roles = [replace(described, **{what: function}), Counter("b", "a", 12)]
        with pytest.raises(ConfigurationError, match=f"'a' is to {what} with .* can be imported"):
            Processes().run(roles, Assignment())


# Whose bytes are in whose memory. A marker is drawn by a process of its own, which also writes it
# with one added to each byte: so a process can look for it without ever holding it.

DRAW = (
    "import os, sys, pathlib; folder = pathlib.Path(sys.argv[1]); marker = os.urandom(24);"
    "(folder / 'marker').write_bytes(marker);"
    "(folder / 'shifted').write_bytes(bytes((b + 1) % 256 for b in marker))"
)


SIMULATED = """
import json, sys
from pathlib import Path
from colonnade.drivers import Assignment, Simulate
from toy_elsewhere import NAMES, Keeper
roles = [Keeper(name, Path(sys.argv[1]) / name) for name in NAMES]
record = Simulate().run(roles, Assignment())
entries = [list(entry) for entry in record.ledger.without_time()]
print(json.dumps([[role.total.hex() for role in roles], entries]))
"""


def python(program, folder):
    command = [sys.executable, "-c", program, str(folder)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


# A parent that is killed while a role is being cast


CASTING = """
import sys
from functools import partial
from pathlib import Path
from colonnade.drivers import Assignment, Elsewhere, Processes
from toy_elsewhere import cast_for_ever
from toys import Counter
elsewhere = Elsewhere("a", ("b",), partial(cast_for_ever, Path(sys.argv[1])))
if __name__ == "__main__":
    Processes().run([elsewhere, Counter("b", "a", 12)], Assignment())
"""


def is_alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def within_seconds(limit, condition):
    end = time.monotonic() + limit
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_who_is_casting_does_not_outlive_a_parent_that_is_killed(tmp_path):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    parent = subprocess.Popen([sys.executable, "-c", CASTING, str(tmp_path)], env=environment)
    try:
        assert within_seconds(50, (tmp_path / "cast").exists)
        child = int((tmp_path / "cast").read_text())
        assert is_alive(child)
    finally:
        parent.kill()
        parent.wait()
    try:
        assert within_seconds(10, lambda: not is_alive(child))
    finally:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_no_process_holds_what_belongs_to_another(tmp_path):
    folders = {name: tmp_path / name for name in NAMES}
    for folder in folders.values():
        folder.mkdir()
        python(DRAW, folder)
    roles = [
        Elsewhere(
            name,
            [peer for peer in NAMES if peer != name],
            partial(Keeper, name, folders[name]),
            partial(look_around, folders),
        )
        for name in NAMES
    ]
    record = Processes().run(roles, Assignment(journals=tmp_path / "journal"))
    shifted = {name: (folder / "shifted").read_bytes() for name, folder in folders.items()}
    assert found_in_memory(shifted) == dict.fromkeys(NAMES, False)
    told = {name: json.loads((folders[name] / "told.json").read_text()) for name in NAMES}
    for name in NAMES:
        # Its own is found, so the search finds what is there.
        assert told[name]["found"] == {other: other == name for other in NAMES}
    simulated, entries = json.loads(python(SIMULATED, tmp_path))
    assert [told[name]["total"] for name in NAMES] == simulated
    assert [list(entry) for entry in record.ledger.without_time()] == entries
