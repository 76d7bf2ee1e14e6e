"""A little of the siege, each time: what ``python benchmarks/siege`` does at length."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "benchmarks"))

from colonnade.config.registry import GROUPS, names
from siege.attack import Found
from siege.attacks import ATTACKS
from siege.subjects import METHODS

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="needs signals and /proc"),
    pytest.mark.usefixtures("no_pictures"),
]

TRIALS = {
    "bodies": 5000,
    "bounds": 500,
    "messages": 32,
    "roles": 8,
    "kills": 4,
    "files": 12,
    "disks": 4,
    "long": 2000,
    "late": 60,
}


def test_every_attack_is_tried_here():
    assert TRIALS.keys() == ATTACKS.keys()


def test_every_method_is_besieged():
    besieged = {method.name for method, _ in METHODS.values()}
    assert besieged >= set(names(GROUPS["methods"]))


@pytest.mark.parametrize("name", ATTACKS)
def test_the_library_holds(name):
    found = ATTACKS[name].run(TRIALS[name], 10_000)
    assert not found.broke, "\n".join(found.broke[:10])
    assert found.tried
    assert sum(found.held.values()) == found.tried


def test_what_broke_is_counted_and_told():
    found, more = Found(), Found()
    found.hold("an error of the wire")
    more.fail("svfl: a bare KeyError")
    found.add(more)
    assert (found.tried, found.broke) == (2, ["svfl: a bare KeyError"])
