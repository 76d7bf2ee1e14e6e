"""The driver kit over our drivers, and over drivers planted to break it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from colonnade.channels import Channel, Network
from colonnade.costs import Modelled
from colonnade.drivers import Processes, Simulate
from colonnade.errors import RoleFailed
from colonnade.ledger import Ledger
from colonnade.testing.drivers import DRIVER_CHECKS, DriverSubject, check_driver

SLOW = Simulate(Network(Channel(1e5, 0.003), queue=2), Modelled(otherwise=0.002))
SUBJECTS = [
    DriverSubject(Simulate(costs=Modelled(otherwise=0.0))),
    DriverSubject(SLOW),
    DriverSubject(Processes()),
]


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
