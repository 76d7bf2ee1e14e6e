"""Kill -9 at a random moment, of a whole run or of one role's process, and resume.

The resumed run ends with the bits of one that nobody killed, and no process is left.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NoReturn

from colonnade.costs import Modelled
from colonnade.drivers import Driver, Processes, Simulate
from colonnade.runs import Run
from siege.attack import Attack, Found
from siege.subjects import METHODS, TRAINING, federation_of

__all__ = ["KILLS", "SIMULATE", "bits", "resume", "trained"]

# The course of these hangs on time, which is never the same between processes.
SIMULATE = Simulate(costs=Modelled(otherwise=0.001))


def bits(run: Run) -> str:
    """Return the digest of all parameters and buffers of a run's models."""
    digest = hashlib.blake2b()
    for name, parts in sorted(run.models.items()):
        for part, module in sorted(parts.items()):
            for key, value in module.state_dict().items():
                digest.update(f"{name}/{part}/{key}".encode() + value.numpy().tobytes())
    return digest.hexdigest()


def trained(method: str, driver: Driver, out: Path | None, *, resume: bool = False) -> Run:
    """Train a besieged method, with a checkpoint after each round."""
    composed, federation = federation_of(method)
    training = replace(TRAINING, checkpoint_every=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return federation.train(composed, training, driver, out=out, resume=resume, report=False)


class _Nursery:
    """Forks processes that train, from a fresh one: so none inherits threads or locks of others."""

    def __init__(self) -> None:
        spawning = multiprocessing.get_context("spawn")
        self._pipe, theirs = spawning.Pipe()
        self._process = spawning.Process(target=_nurse, args=(theirs,))
        self._process.start()
        theirs.close()

    def begin(self, method: str, driver: Driver, folder: Path) -> int:
        """Train in a process of its own, with all of its processes in one group."""
        told = method, isinstance(driver, Processes), str(folder)
        self._pipe.send_bytes(json.dumps(told).encode())
        return int(self._pipe.recv_bytes())

    def close(self) -> None:
        """End it."""
        self._pipe.close()
        self._process.join()


def _nurse(pipe: Connection) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    with suppress(EOFError):
        while True:
            method, processes, folder = json.loads(pipe.recv_bytes())
            child = os.fork()
            if child == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                _train(method, Processes() if processes else SIMULATE, Path(folder))
            with suppress(OSError):  # whichever of the two is first
                os.setpgid(child, child)
            pipe.send_bytes(str(child).encode())


def _train(method: str, driver: Driver, out: Path) -> NoReturn:
    code = 1
    try:
        os.setpgid(0, 0)
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 2)
        trained(method, driver, out / "run", resume=(out / "run").exists())
        code = 0
    except BaseException:
        (out / "error").write_text(traceback.format_exc())
    finally:
        os._exit(code)


def _hangs_on_time(method: str, driver: Driver) -> bool:
    return METHODS[method][0].timed and isinstance(driver, Processes)


def resume(
    found: Found, what: str, method: str, driver: Driver, out: Path, wanted: str, how: str
) -> None:
    """Go on with a run, and count whether it ends with the bits that were wanted: as ``how``."""
    try:
        again = trained(method, driver, out, resume=out.exists())
    except Exception as error:
        found.fail(f"{what}, resumed: {type(error).__name__}: {str(error)[:200]}")
        return
    if not _hangs_on_time(method, driver) and bits(again) != wanted:
        found.fail(f"{what}: other bits")
    else:
        found.hold(how)


def _of_group(group: int) -> Iterator[int]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, ProcessLookupError, IndexError, ValueError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[2]) == group and fields[0] != "Z":
                    yield int(entry.name)


def _kill(child: int, source: random.Random, longest: float, *, one: bool) -> None:
    time.sleep(source.uniform(0.0, longest))
    if one:
        others = [process for process in _of_group(child) if process != child]
        if others:
            with suppress(ProcessLookupError):
                os.kill(source.choice(others), signal.SIGKILL)
            return
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)


def _ended(group: int) -> bool:
    """Whether all processes of a group end within a minute."""
    deadline = time.monotonic() + 60
    while any(True for _ in _of_group(group)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _trial(
    found: Found,
    nursery: _Nursery,
    method: str,
    driver: Driver,
    expected: tuple[str, float],
    seed: int,
) -> None:
    source = random.Random(seed)
    one = isinstance(driver, Processes) and source.random() < 0.5
    what = f"{method}, {driver.label}, {'one role' if one else 'all'}, seed {seed}"
    wanted, seconds = expected
    folder = Path(tempfile.mkdtemp(prefix="siege-"))
    try:
        for _ in range(source.choice((1, 1, 2))):
            child = nursery.begin(method, driver, folder)
            _kill(child, source, seconds, one=one)
            if not _ended(child):
                found.fail(f"{what}: it hangs")
                os.killpg(child, signal.SIGKILL)
                return
        how = "resumed to the end" if _hangs_on_time(method, driver) else "resumed to the same bits"
        resume(found, what, method, driver, folder / "run", wanted, how)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(trials: int, seed: int) -> Found:
    found = Found()
    if sys.platform != "linux":
        return found
    nursery = _Nursery()
    drivers: tuple[Driver, ...] = (SIMULATE, Processes())
    expected: dict[tuple[str, str], tuple[str, float]] = {}
    for number in range(trials):
        method = [*METHODS][number % len(METHODS)]
        driver = drivers[number // len(METHODS) % 2]
        key = method, driver.label
        if key not in expected:
            begun = time.monotonic()
            with tempfile.TemporaryDirectory() as folder:
                run = trained(method, driver, Path(folder) / "run")
            expected[key] = bits(run), time.monotonic() - begun
        _trial(found, nursery, method, driver, expected[key], seed + number)
    nursery.close()
    return found


KILLS = Attack(
    "kill -9 at a random moment",
    "the run goes on from its last checkpoint to the bits of one that nobody killed",
    256,
    _run,
)
