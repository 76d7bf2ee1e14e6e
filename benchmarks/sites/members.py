"""A member of a federation that sends others what it should not, each lie in a job of its own.

Whoever is lied to goes on, to the bits of a run in which nobody lies, or the job fails, and every
site is told the same reason. Afterwards the next job runs as if nothing had been.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from colonnade.runs import Run
from sites.ground import EVERYBODY, Ground, Job, ground
from sites.liars import FRUITLESS, LIES
from sites.seats import ATTEND, PRESIDE
from sites.table import Row

__all__ = ["members"]

LYING = "sites.liars.Attend"


def members(only: str = "") -> Iterator[Row]:
    """Yield a row for each lie, or for one, and one for the run that comes after them."""
    with ground(allowed=(ATTEND, PRESIDE, LYING)) as place:
        expected = place.job("expected", epochs=6).expected
        for lie in LIES:
            if only in lie:
                job = place.job(lie, attend=LYING, epochs=6)
                yield _tried(place, job, expected, must=lie in FRUITLESS)
        yield _tried(place, place.job("honest", epochs=6), expected, must=True)


def _tried(place: Ground, job: Job, expected: Run, *, must: bool = False) -> Row:
    begun = time.monotonic()
    outcome = place.carried_out(job)
    left = not place.settles(outcome.number)
    seconds = time.monotonic() - begun
    name = job.run.replace("-", " ")
    if left:
        return Row(name, f"{outcome.status}, and processes of the job are left", False, seconds)
    if outcome.completed:
        difference = place.difference(job, expected)
        return Row(name, difference or "ignored: the same bits", not difference, seconds)
    why = place.why(outcome.number)
    told = "; ".join(dict.fromkeys(why.values()))
    held = why.keys() == set(EVERYBODY) and not place.has_trained(job) and not must
    return Row(name, f"refused, told at {len(why)} sites: {told}", held, seconds)
