"""What a defence of labels is: what the label holder does to derivatives that it will send.

A party can often tell labels from the derivatives that come back to it: by their directions, or by
their norms. A defence is a frozen value, part of an exchange in which derivatives leave the label
holder. It makes a *guard*, which is handed those of a batch before they go, and keeps an account.
The label holder's own steps are along the exact ones, which stay with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from colonnade.disclosures import Disclosure
from colonnade.layout import Layout
from colonnade.links import Rows
from colonnade.models import Fusion
from colonnade.organisations import LabelHolder, Loss
from colonnade.privacy import Game
from colonnade.uplinks import Moment, Timetable

__all__ = ["Bare", "Defence", "Guard"]


class Guard(Protocol):
    """The label holder's half, and all there is of it: parties need not know of a defence.

    One that inherits from this class lets derivatives go as they are, and accounts for nothing.
    """

    async def prepare(self, timetable: Timetable) -> None:
        """Do what must be done before derivatives leave; called at every start."""
        return

    async def enter(self, rows: Rows, moment: Moment) -> None:
        """Enter that derivatives of these rows will leave now."""
        return

    def protected(self, derivatives: Mapping[str, Tensor], moment: Moment) -> dict[str, Tensor]:
        """Return what leaves in place of the derivatives of a batch, ``[B, E]``, by party.

        Parties may share one tensor, as of a sum; what they are sent is then one, too. Called once
        for each moment.
        """
        return dict(derivatives)

    def report(self) -> Mapping[str, float]:
        """Return what goes into the history beside each evaluation, such as epsilon."""
        return {}

    def spent(self) -> Mapping[str, Any]:
        """Return what was lost of labels' privacy until now, for the summary."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Return what was accounted for."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        return


class Bare(Guard):
    """The guard of who has no defence."""


@runtime_checkable
class Defence(Protocol):
    """What becomes of derivatives before they leave the label holder; a frozen value."""

    def affords(self, layout: Layout, uses: int) -> bool:
        """Return whether derivatives of a row may leave so often; where not, training ends."""
        ...

    def spending(self, layout: Layout, uses: int) -> Mapping[str, Any]:
        """Return what so many uses of a row will cost of its label's privacy."""
        ...

    def unlimited(self) -> Defence:
        """Return the defence without a budget."""
        return self

    def games(self, layout: Layout) -> tuple[Game, ...]:
        """Return games that try whether it keeps what the account says of labels."""
        return ()

    def disclosures(self, layout: Layout) -> tuple[Disclosure, ...]:
        """Return what is told of labels then, and what is not covered."""
        ...

    def check_covers(self, loss: Loss, learned: Mapping[str, Any]) -> None:
        """Raise ``ConfigurationError`` if it does not cover such a loss.

        For that a guard is refused, too; who asks before, has not brought others together in vain.
        """
        return

    def guard(self, layout: Layout, fusion: Fusion, holder: LabelHolder) -> Guard:
        """Make the label holder's half; its top model is given what ``fusion`` makes.

        What the account counts on, as that a label reaches the derivatives of its own row alone,
        the defence looks after here: ``models.check_rows_apart``, ``losses.check_labels_apart``,
        ``backwards.check_derivatives_apart``.

        Raises
        ------
        ConfigurationError
            If its models cannot be defended so.
        """
        ...
