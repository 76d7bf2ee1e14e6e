"""Fastest: a round goes on with the first so many embeddings."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.annotated import is_whole, make_plain
from colonnade.effects import Expect
from colonnade.errors import ConfigurationError
from colonnade.stragglers.absent import Absent, Dropping

__all__ = ["Fastest"]


@dataclass(frozen=True)
class Fastest(Dropping):
    """A round of training takes the first so many embeddings, and waits for no more.

    Whoever is later takes no step in that round. Evaluations wait for everybody. With half of the
    parties it is what the FedVS paper compares with as *Ignore* (Li, Yao and Liu, 2023, section 6).

    Parameters
    ----------
    count
        How many parties; as many as there are, where there are fewer. An uplink that needs more of
        them waits for so many.
    absent
        As for ``Deadline``.

    Raises
    ------
    ConfigurationError
        If ``count`` is no whole number from 1 on, or ``absent`` is neither.

    Examples
    --------
    >>> everything = Expect("embedding", 7, ("bank", "shop", "clinic"))
    >>> Fastest(2).expect(everything).quorum
    2
    """

    count: int
    absent: Absent = "left_out"

    def __post_init__(self) -> None:
        make_plain(Fastest, self)
        if not is_whole(self.count) or self.count < 1:
            raise ConfigurationError(
                f"count is {self.count!r}, but a round needs the embeddings of one party at "
                "least: say a whole number from 1 on"
            )
        self.check_absent()

    def expect(self, everything: Expect) -> Expect:
        """Return that so many suffice."""
        return everything._replace(quorum=min(self.count, len(everything.sources)))
