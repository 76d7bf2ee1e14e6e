"""Deadline: a round goes on so many seconds after the first embedding of it came."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.annotated import make_plain
from colonnade.channels import check_seconds
from colonnade.effects import Expect, Since
from colonnade.stragglers.absent import Absent, Dropping

__all__ = ["Deadline"]


@dataclass(frozen=True)
class Deadline(Dropping):
    """A round of training waits so long after the first embedding, and for nobody longer.

    Whoever is later takes no step in that round. Evaluations wait for everybody.

    Parameters
    ----------
    seconds
        From the first embedding that came; 0 takes those that are there then.
    absent
        ``"left_out"``: what came is fused, which sum, mean and max allow; ``"stale"``: the last
        embedding of a row that came of a party stands for its next. Of a row of which nothing came
        yet there are zeros, counted in the history as ``embeddings_never_seen``.

    Raises
    ------
    ConfigurationError
        If the seconds are negative or not finite, or ``absent`` is neither.

    Examples
    --------
    >>> from colonnade import Mean, Method
    >>> Method("impatient", Mean(), stragglers=Deadline(0.5)).stragglers.drops
    True
    """

    seconds: float
    absent: Absent = "left_out"

    def __post_init__(self) -> None:
        make_plain(Deadline, self)
        check_seconds("a deadline", self.seconds)
        self.check_absent()

    def expect(self, everything: Expect) -> Expect:
        """Return ``everything``, or what is there at the deadline."""
        return everything._replace(within=self.seconds, since=Since.FIRST_ARRIVAL)
