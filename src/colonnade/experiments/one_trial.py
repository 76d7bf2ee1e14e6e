"""One trial: an ordinary run, stopped where it is looked at."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from colonnade.errors import ColonnadeError, ConfigurationError
from colonnade.experiments.experiment import Result, Trial
from colonnade.outputs import replacing
from colonnade.runs import Run
from colonnade.training import Watcher

__all__ = ["run_trial"]


def run_trial(trial: Trial, out: Path, watcher: Watcher, device: str) -> Result | None:
    """Run a trial, or what is left of it; None if it was interrupted.

    Parameters
    ----------
    trial
        What is run.
    out
        The folder in which it has one of its own.
    watcher
        Who is told how it goes, and may interrupt it.
    device
        Where models compute, as torch names it.

    Returns
    -------
    Result or None
        Its account, without the models.

    Raises
    ------
    ColonnadeError
        What went wrong, and in which trial.
    """
    try:
        return _result(trial, out / trial.folder, watcher, device)
    except ColonnadeError as error:
        raise type(error)(f"{trial.name}: {error}") from error
    except Exception as error:
        error.add_note(f"in the trial {trial.name}")
        raise


def _result(trial: Trial, folder: Path, watcher: Watcher, device: str) -> Result | None:
    federation = trial.federation(trial.seed).on(device)
    training = replace(trial.training, seed=trial.seed)

    def train(stop_before: int | None) -> Run:
        return federation.train(
            trial.method,
            training,
            trial.driver,
            out=folder,
            resume=True,
            stop_before=stop_before,
            watcher=watcher,
            report=False,
        )

    file = folder / "probes.json"
    probed = _probed(file) if file.exists() else {}
    for round in trial.probes:
        if round in probed:
            continue
        run = train(round)
        if run.summary["rounds"] < round:
            return None
        assert trial.probe is not None
        probed[round] = trial.probe(federation, trial.method, _here(run.models))
        with replacing(file) as partial:
            partial.write_text(json.dumps(probed), encoding="utf-8")
    run = train(None)
    if not run.summary["completed"]:
        return None
    return Result(replace(run, models={}, record=None, predictor=None), probed)


def _here(models: Mapping[str, Mapping[str, nn.Module]]) -> dict[str, dict[str, nn.Module]]:
    """Return models on the CPU, where probes have the features."""
    return {
        name: {part: module.cpu() for part, module in parts.items()}
        for name, parts in models.items()
    }


def _probed(file: Path) -> dict[int, Any]:
    """Return what probes saw before an interruption."""
    try:
        return {int(round): seen for round, seen in json.loads(file.read_bytes()).items()}
    except (OSError, ValueError, AttributeError, RecursionError):
        raise ConfigurationError(
            f"{file} was not written by Colonnade, or is damaged; move it away, or choose another "
            "folder"
        ) from None
