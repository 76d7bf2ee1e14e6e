"""A disk that takes no more, at any byte of a run: one sentence, and it goes on when there is room.

The operating system refuses to let any file grow beyond a drawn size (RLIMIT_FSIZE).
"""

from __future__ import annotations

import random
import resource
import signal
import tempfile
from pathlib import Path

from colonnade.drivers import Driver, Processes
from colonnade.errors import Unwritten
from siege.attack import Attack, Found
from siege.kills import SIMULATE, bits, resume, trained
from siege.subjects import METHODS

__all__ = ["DISKS"]


def _trial(found: Found, method: str, driver: Driver, wanted: str, seed: int) -> None:
    limit = random.Random(seed).choice((0, 100, 1000, 5000, 20_000, 50_000, 100_000))
    what = f"{method}, {driver.label}, {limit} bytes a file, seed {seed}"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
        try:
            trained(method, driver, out)
        except Unwritten:
            how = "one sentence, and the run went on"
        except Exception as error:
            found.fail(f"{what}: {type(error).__name__}: {str(error)[:200]}")
            return
        else:
            how = "there was room"
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            signal.signal(signal.SIGXFSZ, handler)
        resume(found, what, method, driver, out, wanted, how)


def _run(trials: int, seed: int) -> Found:
    found = Found()
    names, drivers = [*METHODS], (SIMULATE, Processes())
    expected: dict[str, str] = {}
    for number in range(trials):
        method = names[number % len(names)]
        if method not in expected:
            expected[method] = bits(trained(method, SIMULATE, None))
        driver = drivers[number // len(names) % 2]
        _trial(found, method, driver, expected[method], seed + number)
    return found


DISKS = Attack(
    "a disk that is full",
    "one sentence that says what is safe, and the run goes on to the same bits when there is room",
    64,
    _run,
)
