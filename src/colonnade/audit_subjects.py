"""What ``colonnade audit`` audits: configurations, folders of runs, or digits sent in six ways.

The digits are the demo's, 5000 in quadrants. Bottom models end in tanh, so that every method can
have them, and embeddings are summed, as a secure sum has to: only how they travel differs, and how
derivatives do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from colonnade.audits import Audit, Scope, audit
from colonnade.codecs import Scalar, TopK
from colonnade.config import RunConfig, load_config, parse_config
from colonnade.defences import GaussianDerivatives
from colonnade.drivers import Simulate
from colonnade.errors import ConfigurationError
from colonnade.exchanges import Split
from colonnade.federation import Federation
from colonnade.methods import Method, cvfl, efvfl, pbm_vfl, svfl, wait_dp
from colonnade.models import Sum
from colonnade.run_read import load_run
from colonnade.training import Watcher

__all__ = ["METHODS", "Subject", "digits", "subjects"]

METHODS: dict[str, Method] = {
    "vanilla": svfl(fusion=Sum()),
    "C-VFL, 4 bits": cvfl(Scalar(bits=4), fusion=Sum()),
    "EF-VFL, top 10 %": efvfl(TopK(0.1), fusion=Sum()),
    "Gaussian": wait_dp(epsilon=30.0, bound=4.0, fusion=Sum()),  # a use is about as private as
    "PBM, b 16, beta 0.1": pbm_vfl(trials=16, beta=0.1),  # one of this
    "label defence": Method(
        "label defence",
        Sum(),
        exchange=Split(defence=GaussianDerivatives.calibrated(0.5, epsilon=5.0, delta=1e-5)),
    ),
}
"""What the digits are audited with."""


@dataclass(frozen=True, eq=False)
class Subject:
    """One thing to audit.

    Parameters
    ----------
    config
        What it is trained as.
    method
        Another method than the configuration's.
    ended
        The summary of the run that is audited, if it was over.
    build
        Makes the federation; by default that of the configuration.
    """

    config: RunConfig
    method: Method | None = None
    ended: Mapping[str, Any] | None = None
    build: Callable[[], Federation] | None = None

    def audit(self, scope: Scope, watcher: Watcher, told: Callable[[str], None]) -> Audit:
        """Audit it."""
        config = self.config
        federation = (self.build or config.build_federation)()
        found = audit(
            federation,
            self.method or config.method.build(),
            config.training.build(len(federation.validation_rows)),
            config.build_driver() if config.driver == "simulate" else Simulate(),
            scope=scope,
            watcher=watcher,
            told=told,
        )
        if found.run is None or self.ended is None:
            return found
        return replace(found, notes=(*found.notes, _repeated(self.ended, found.run.summary)))


def subjects(paths: Sequence[Path], overrides: list[str]) -> list[Subject]:
    """Return what files and folders hold.

    Parameters
    ----------
    paths
        YAML files that describe runs, and folders of runs.
    overrides
        Settings that files are changed by, ``a.b=c``.

    Raises
    ------
    ConfigurationError
        If one is no valid configuration, or was described in Python.
    DataError
        If there is no such run.
    """
    return [_subject(path, overrides) for path in paths]


def digits(overrides: Sequence[str] = ()) -> dict[str, Subject]:
    """Return the digits, sent in six ways, by their names."""
    if overrides:
        raise ConfigurationError("--set changes a configuration: name one")
    config = parse_config(
        {
            "data": {"name": "mnist5k", "partition": "quadrants", "parties": 4},
            "model": {
                "bottom": {"widths": [32], "activation": "tanh"},
                "top": {"widths": []},
            },
            "method": {"name": "svfl", "fusion": "sum"},
            "optimiser": {"name": "adam", "lr": 3e-3},
            "training": {"epochs": 10, "batch_size": 128, "secrets": "seed"},
        }
    )
    build = cache(config.build_federation)  # of all the same
    return {name: Subject(config, method, build=build) for name, method in METHODS.items()}


def _subject(path: Path, overrides: list[str]) -> Subject:
    if not path.is_dir():
        return Subject(load_config(path, overrides))
    if overrides:
        raise ConfigurationError(
            f"--set changes a configuration, and the run in {path} is over: copy its config.yaml, "
            "and audit that"
        )
    run = load_run(path)
    if not isinstance(run.config.get("method"), Mapping):
        raise ConfigurationError(
            f"the run in {path} was described in Python, so its models are not in its folder: "
            "audit it there, with colonnade.audits.audit(federation, method, training)"
        )
    return Subject(load_config(path / "config.yaml"), ended=run.summary)


def _repeated(ended: Mapping[str, Any], again: Mapping[str, Any]) -> str:
    if not ended["completed"]:
        return "the run was interrupted; it was trained to its end for the audit"
    metric, before, now = again["metric"], ended["final"], again["final"]
    if before == now:
        return (
            f"training was repeated for the audit, and ended as the run did: {metric} {_told(now)}"
        )
    return (
        f"training was repeated for the audit, and ended at {metric} {_told(now, 6)} where the run "
        f"had {_told(before, 6)}: private noise or time decides anew, or data, versions or machine "
        "are others"
    )


def _told(value: float | None, digits: int = 4) -> str:
    """Return a metric with so many digits; a word where nobody evaluated, or it was no number."""
    return "unknown" if value is None else f"{value:.{digits}g}"
