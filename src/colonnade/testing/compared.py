"""What runs of a method must have in common."""

from __future__ import annotations

import math
import tempfile
import warnings
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from colonnade.drivers import Driver, Processes, Simulate
from colonnade.errors import PrivacyWarning
from colonnade.federation import Federation
from colonnade.method import Method
from colonnade.models import Features, take
from colonnade.prediction import Prediction
from colonnade.runs import Run
from colonnade.testing.subjects import MethodSubject
from colonnade.training import Training
from colonnade.wire import Purpose

__all__ = [
    "assert_close",
    "assert_goes_on",
    "assert_listed",
    "assert_predicts",
    "assert_same",
    "assert_told",
    "new_rows",
    "predicted",
    "states",
]


def states(run: Run) -> list[tuple[str, Tensor]]:
    """Return all that is trained, with where it is."""
    return [
        (f"{part} of {name}: {key}", value)
        for name, parts in run.models.items()
        for part, module in parts.items()
        for key, value in module.state_dict().items()
    ]


def assert_listed(run: Run, federation: Federation, method: Method, training: Training) -> None:
    """Assert that every message is of a listed flow, and not longer than that says."""
    listed = {
        (flow.sender, receiver, flow.kind, flow.purpose): flow
        for flow in federation.agreement(method, training).flows()
        for receiver in flow.receivers
    }
    for entry in run.ledger:
        flow = listed.get((entry.sender, entry.receiver, entry.kind, entry.purpose))
        assert flow is not None, f"no flow is listed for {entry}"
        most = flow.format.at(entry.round).bytes_at_most(flow.rows, flow.width)
        assert entry.body_bytes <= most, f"at most {most} bytes are listed for {entry}"


def assert_told(spent: Mapping[str, Any] | None, told: Mapping[str, Any]) -> None:
    """Assert that an account of a run comes to no more than was told before."""
    if spent is None:
        return
    assert told, f"the run keeps an account, {spent}, of which nothing is told before"
    for name in ("epsilon", "epsilon_with_noise", "uses_of_a_row"):
        unknown = 0.0 if name == "epsilon_with_noise" else math.inf  # no such rows; no bound
        real, most = (
            unknown if account.get(name) is None else account[name] for account in (spent, told)
        )
        assert real <= most * (1 + 1e-9), (
            f"{name} is {real} in the run, and {most} is told before: an exchange that uses the "
            "uplink more than once a round says so by uploads"
        )


def assert_goes_on(
    subject: MethodSubject, method: Method, driver: Driver | None, training: Training
) -> None:
    """Assert that a run is the same where it is stopped and resumed twice."""
    whole = subject.train(method, driver, training=training)
    with tempfile.TemporaryDirectory() as folder:
        run = partial(subject.train, method, driver, training=training, out=Path(folder) / "run")
        for stop in (4, whole.summary["rounds"] - 1):
            part = run(stop_before=stop, resume=stop > 4)
            assert not part.summary["completed"]
        rest = run(resume=True)
        over = run(resume=True)
    assert_same(over, rest)
    _assert_same_models(rest, whole)
    assert _trained(rest) == _trained(whole), "other messages after it was stopped twice"
    assert _told(rest) == _told(whole), "another history after it was stopped twice"


def predicted(run: Run, tables: Mapping[str, Any], *how: Any, **more: Any) -> Prediction:
    """Return a prediction of made-up rows, of which it does not matter what it discloses."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        return run.predict(tables, *how, **more)


def assert_predicts(subject: MethodSubject, run: Run) -> None:
    """Assert that predictions of the test rows have the accuracy that the run reports."""
    federation = subject.made(subject.method)
    rows = torch.from_numpy(federation.test_rows)
    tables = {name: take(x, federation.test_rows) for name, x in _features(federation).items()}
    for driver in (Simulate(), Processes()):
        prediction = predicted(run, tables, driver, rows_per_message=4)
        purposes = {entry.purpose for entry in prediction.ledger}
        assert purposes <= {Purpose.PREDICTION, Purpose.SETUP}, purposes
        right = prediction.classes() == federation.label_holder.labels[rows]
        accuracy, told = float(right.float().mean()), run.summary["test"]["accuracy"]
        allowed = max(subject.noise, 1e-6)  # a mean of float32 is rounded
        assert abs(accuracy - told) <= allowed, f"predicts at {accuracy}, and reports {told}"


def _trained(run: Run) -> list[tuple[Any, ...]]:
    """Return all messages but those that set up, without their numbers and times."""
    entries = [entry for entry in run.ledger if entry.purpose is not Purpose.SETUP]
    return [
        tuple(entry._replace(sequence=0, framed_bytes=0, nanoseconds=None)) for entry in entries
    ]


def _assert_same_models(one: Run, other: Run) -> None:
    for (place, mine), (_, expected) in zip(states(one), states(other), strict=True):
        assert torch.equal(mine, expected), f"{place} differs"


def assert_same(one: Run, other: Run) -> None:
    """Assert that two runs sent, learned and told the same, to the bit."""
    _assert_same_models(one, other)
    assert one.ledger.without_time() == other.ledger.without_time(), "other messages were sent"
    assert _told(one) == _told(other), "the history differs"


def _told(run: Run) -> list[list[dict[str, Any]]]:
    """Return what everybody reported, without times."""
    return [
        frame.drop("seconds", "seconds_evaluation", strict=False).to_dicts()
        for frame in (run.history, run.others_history)
    ]


def assert_close(one: Tensor, expected: Tensor, tolerance: float, place: str) -> None:
    """Assert that a tensor is as close to another as is allowed, relative to its norm."""
    distance = float(torch.norm(one - expected))
    allowed = tolerance * float(torch.norm(expected))
    assert distance <= allowed, f"{place}: {distance:g} away, at most {allowed:g}"


def _features(federation: Federation) -> dict[str, Any]:
    members = [*federation.parties, federation.label_holder.as_party()]
    return {member.name: member.features for member in members if member is not None}


def new_rows(federation: Federation) -> dict[str, Any]:
    """Return what everybody has about people who were not in training."""
    rows = np.arange(11)
    return {name: _moved(take(x, rows)) for name, x in _features(federation).items()}


def _moved(features: Features) -> Features:
    """Return features that are not those of training; a code stays what it is."""
    if not isinstance(features, Tensor):
        return {name: _moved(x) if x.is_floating_point() else x for name, x in features.items()}  # type: ignore[misc]  # a tensor of a tensor
    return features + 0.1
