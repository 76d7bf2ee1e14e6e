"""A damaged file in a run's folder: it is told, or what is gone on from is whole."""

from __future__ import annotations

import random
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from colonnade.errors import ColonnadeError, RoleFailed
from colonnade.run_read import load_run
from siege.attack import Attack, Found
from siege.bodies import changed
from siege.kills import SIMULATE, bits, trained
from siege.subjects import METHODS, TRAINING, federation_of

__all__ = ["FILES"]


def _damage(path: Path, source: random.Random) -> str:
    way = source.randrange(5)
    if way == 0:
        path.unlink()
        return "gone"
    if way == 1:
        path.write_bytes(b"")
        return "empty"
    path.write_bytes(changed(path.read_bytes(), source))
    return "changed"


def _told(folder: Path) -> object:
    run = load_run(folder)
    return run.summary, run.config, run.history.to_dicts(), run.ledger.frame().to_dicts()


def _trial(found: Found, whole: Path, part: Path, wanted: str, seed: int) -> None:
    source = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        finished = source.random() < 0.5
        folder = Path(name) / "run"
        shutil.copytree(whole if finished else part, folder)
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        path = source.choice(files)
        before = path.read_bytes()
        how = _damage(path, source)
        while path.exists() and path.read_bytes() == before:  # as where an empty one was emptied
            how = _damage(path, source)
        what = f"{whole.name}, {path.relative_to(folder)} {how}, seed {seed}"
        try:
            if finished and path.parent == folder:
                same = _told(folder) == _told(whole)
                told = "what it tells is the same" if same else None
            else:
                run = trained(whole.name, SIMULATE, folder, resume=True)
                told = "gone on to the same bits" if bits(run) == wanted else None
        except Exception as error:
            if isinstance(error, ColonnadeError) and not isinstance(error, RoleFailed):
                found.hold(type(error).__name__)
            else:
                found.fail(f"{what}: {type(error).__name__}: {str(error)[:150]}")
        else:
            if told is None:
                found.fail(f"{what}: it was believed")
            else:
                found.hold(told)


def _run(trials: int, seed: int) -> Found:
    found = Found()
    with tempfile.TemporaryDirectory() as name:
        made = []
        chosen = random.Random(seed).sample(list(METHODS), min(len(METHODS), 1 + trials // 4))
        for method in chosen:
            whole, part = Path(name) / "whole" / method, Path(name) / "part" / method
            wanted = bits(trained(method, SIMULATE, whole))
            made.append((whole, part, wanted))
            _stopped(method, part)
        for number in range(trials):
            whole, part, wanted = made[number % len(made)]
            _trial(found, whole, part, wanted, seed + number)
    return found


def _stopped(method: str, folder: Path) -> None:
    composed, federation = federation_of(method)
    training = replace(TRAINING, checkpoint_every=1)
    federation.train(composed, training, SIMULATE, out=folder, stop_before=4, report=False)


FILES = Attack(
    "a damaged file of a run",
    "it is told, or the run goes on from what is whole to the same bits",
    1000,
    _run,
)
