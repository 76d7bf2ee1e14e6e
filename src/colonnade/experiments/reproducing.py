"""A whole experiment: its trials, one by one or several at once, and what they show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from colonnade.errors import ConfigurationError
from colonnade.experiments.experiment import Experiment, Findings, Result, Results, Scale, Trial
from colonnade.experiments.one_trial import run_trial
from colonnade.experiments.workers import run_trials
from colonnade.training import Watcher

__all__ = ["findings_of", "reproduce"]


def reproduce(
    experiment: Experiment,
    scale: Scale,
    out: Path,
    watcher: Callable[[str], Watcher],
    workers: int = 1,
) -> Findings | None:
    """Run an experiment's trials, or what is left of them, and return what they show.

    None if a trial was interrupted: called again, it goes on.

    Parameters
    ----------
    experiment, scale
        What to run, and how much of it.
    out
        The folder of the runs, each in a folder of its own.
    watcher
        Makes the watcher of a trial, from its name, when the trial begins.
    workers
        How many trials are run at once, each in a process of its own; 1 runs them here. The
        experiment is then sent to processes that are spawned, so its functions must be importable
        by name. The findings are the same, and so is their order.

    Raises
    ------
    ConfigurationError
        If two trials have one name, or the runs in ``out`` are of other trials.
    ColonnadeError
        If a trial fails; the message names it. Others that were under way can be resumed.
    """
    trials = experiment.trials(scale)
    folders = [trial.folder for trial in trials]
    if len(set(folders)) < len(folders):
        raise ConfigurationError(f"{experiment.name} has two trials of one name")
    if workers == 1:
        found = _one_by_one(trials, out, watcher, scale.device)
    else:
        found = run_trials(experiment.trials, scale, trials, out, watcher, workers)
    if found is None:
        return None
    return findings_of(experiment, list(zip(trials, found, strict=True)))


def findings_of(experiment: Experiment, found: Sequence[tuple[Trial, Result]]) -> Findings:
    """Return what the results of trials, in their order, show; and where they were computed."""
    results = Results()
    for trial, result in found:
        results.add(trial, result)
    findings = experiment.findings(results)
    devices = results.devices()
    if devices == ["cpu"]:
        return findings
    told = f"Models computed on {', '.join(devices)}: the last bits of a run depend on that."
    return replace(findings, notes=[*findings.notes, told])


def _one_by_one(
    trials: Sequence[Trial], out: Path, watcher: Callable[[str], Watcher], device: str
) -> list[Result] | None:
    found = []
    for trial in trials:
        result = run_trial(trial, out, watcher(trial.name), device)
        if result is None:
            return None
        found.append(result)
    return found
