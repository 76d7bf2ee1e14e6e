"""The driver kit over our drivers, and over drivers planted to break it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace

import pytest

from colonnade.channels import Channel, Network
from colonnade.costs import Modelled
from colonnade.drivers import Processes, Simulate, inquiry
from colonnade.drivers.driver import Assignment
from colonnade.errors import Deadlock, RoleFailed
from colonnade.flows import Limits
from colonnade.ledger import Ledger
from colonnade.testing.drivers import (
    DRIVER_CHECKS,
    DriverSubject,
    check_driver,
    keeps_to_the_limits,
    tells_that_nobody_goes_on,
)

SLOW = Simulate(Network(Channel(1e5, 0.003), queue=2), Modelled(otherwise=0.002))
SUBJECTS = [
    DriverSubject(Simulate(costs=Modelled(otherwise=0.0))),
    DriverSubject(SLOW),
    DriverSubject(Processes()),
]


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """Ask how it stands soon."""
    monkeypatch.setattr(inquiry, "_QUIET", 0.1)


@pytest.mark.parametrize("check", DRIVER_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("subject", SUBJECTS, ids=["simulate", "slow", "processes"])
def test_a_driver_conforms(subject, check, tmp_path):
    check(subject, tmp_path)


@dataclass(frozen=True)
class Forgetful:
    """Loses the last message of its ledger, the notes of its journal, or whose work raised."""

    what: str
    label = "forgetful"
    clock = Simulate().clock
    network = timing = None
    repeats = False

    def run(self, roles, assignment):
        if self.what == "journal":
            assignment = replace(assignment, journals=None)
        if self.what == "failure":
            for role in roles:
                role._fails_in = -1
        try:
            record = SLOW.run(roles, assignment)
        except RoleFailed as error:
            raise error.__cause__ if self.what == "role" else error from None
        if self.what == "ledger":
            record.ledger = Ledger(list(record.ledger)[1:])
        if self.what == "name":
            record.history = [
                {k: v for k, v in row.items() if k != "organisation"} for row in record.history
            ]
        return record


@pytest.mark.parametrize("what", ["ledger", "journal", "failure", "name", "role"])
def test_a_driver_that_forgets_something_is_found(what, tmp_path):
    with pytest.raises((AssertionError, KeyError, ValueError)):
        check_driver(DriverSubject(Forgetful(what)), tmp_path)


@dataclass(frozen=True)
class Deaf(Simulate):
    """Does not heed a field of its assignment."""

    field: str = ""

    def run(self, roles, assignment):
        usual = getattr(Assignment(), self.field)
        changed = {"seed": assignment.seed + 1}.get(self.field, usual)
        return super().run(roles, replace(assignment, **{self.field: changed}))


@pytest.mark.parametrize(
    ("field", "check"),
    [
        ("limits", "keeps_to_the_limits"),
        ("departures", "notes_what_leaves"),
        ("interrupted", "stops_when_it_is_interrupted"),
        ("on_round", "tells_as_it_goes"),
        ("on_report", "tells_as_it_goes"),
        ("seed", "plays_like_the_simulator"),
    ],
)
def test_a_driver_that_does_not_heed_its_assignment_is_found(field, check, tmp_path):
    checks = {each.__name__: each for each in DRIVER_CHECKS}
    with pytest.raises(AssertionError):
        checks[check](DriverSubject(Deaf(costs=Modelled(otherwise=0.001), field=field)), tmp_path)


@pytest.mark.parametrize("field", ["body", "messages", "bytes", "flows"])
def test_a_driver_that_keeps_to_some_limits_is_found(field, tmp_path):
    class Lax(Simulate):
        def run(self, roles, assignment):
            limits = replace(assignment.limits, **{field: getattr(Limits(), field)})
            return super().run(roles, replace(assignment, limits=limits))

    with pytest.raises(AssertionError):
        keeps_to_the_limits(DriverSubject(Lax()), tmp_path)


class Waits(Simulate):
    """Waits for ever where nobody goes on, or for as long as a test lets it."""

    ended = threading.Event()

    def run(self, roles, assignment):
        try:
            return super().run(roles, assignment)
        except Deadlock:
            self.ended.wait()
            raise


class Gives(Simulate):
    """Gives up where nobody goes on, without saying so."""

    def run(self, roles, assignment):
        try:
            return super().run(roles, assignment)
        except Deadlock as error:
            raise RoleFailed(str(error)) from None


def test_a_driver_that_does_not_tell_a_deadlock_is_found(tmp_path):
    try:
        with pytest.raises(AssertionError, match=r"wait for each other for 0\.1 s"):
            tells_that_nobody_goes_on(DriverSubject(Waits(), patience=0.1), tmp_path)
    finally:
        Waits.ended.set()
    with pytest.raises(AssertionError, match="RoleFailed"):
        tells_that_nobody_goes_on(DriverSubject(Gives()), tmp_path)
