r"""Gaussian noise on derivatives: each use of a row's label is differentially private.

A batch's loss is a mean over its rows, L = (1/B) sum_n l_n. What leaves the label holder of row n
is d_n = dL/dz_n of all parties side by side, since they may look at it together; only l_n depends
on the label of row n, so B d_n is a function of that label and of what was known before. It is
clipped to the norm C: whatever the label, it moves by at most 2 C, and noise of ``multiplier``
such distances makes each use of the row private (see ``privacy.gaussian_noise``).

Marvell (Li et al., "Label leakage and protection in two-party split learning", ICLR 2022) is not
here: the covariance of its noise is chosen by the classes of the batch, and the bound it minimises
holds if derivatives of a class are normally distributed. So it says nothing of one row's label that
could be composed over uses.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor

from colonnade.annotated import make_plain
from colonnade.defences.backwards import check_derivatives_apart
from colonnade.defences.contract import Defence, Guard
from colonnade.defences.derivative_game import DerivativeGame
from colonnade.defences.losses import (
    TRIED,
    check_labels_apart,
    check_mean,
    different_labels,
)
from colonnade.disclosures import Disclosure, source_of_secrets
from colonnade.effects import Commit, Purpose, Recall
from colonnade.errors import ConfigurationError
from colonnade.layout import Layout
from colonnade.links import Rows
from colonnade.models import Fusion, check_rows_apart
from colonnade.organisations import LabelHolder, Loss
from colonnade.privacy import (
    UNLIMITED,
    Budget,
    Event,
    Game,
    Gaussian,
    RowUses,
    Spending,
    check_budget,
)
from colonnade.uplinks import Moment, Timetable
from colonnade.uplinks.account import OWN, Account, told

__all__ = ["GaussianDerivatives"]


@dataclass(frozen=True)
class GaussianDerivatives(Defence):
    """Derivatives of a row, of all parties together, are clipped and get Gaussian noise.

    Neighbours differ in the label of one row. Accounted for is each use of the row: what its own
    derivatives tell whoever sees all of them. It is not accounted for what a label leaves in the
    top model, whose steps have no noise and which shapes the derivatives of other rows, nor what
    verdicts and released models tell.

    Parameters
    ----------
    bound
        C, the largest L2 norm that is kept of the derivative of a row's own loss in all embeddings
        of the row; what travels of a batch of B rows is a B-th of it.
    multiplier
        Deviation of the noise in units of the sensitivity, 2 C.
    budget
        What may be disclosed of each label: training ends before it would be exceeded. By default
        there is no end, and epsilon is told for a delta of 1e-5.

    Raises
    ------
    ConfigurationError
        If a number is out of range; when a role is cast, if the top model has batch normalisation,
        or the loss class weights, by which a label reaches other rows' derivatives in its batch.

    Examples
    --------
    >>> defence = GaussianDerivatives.calibrated(bound=1.0, epsilon=5.0, delta=1e-5)
    >>> round(defence.multiplier, 3)
    0.892
    """

    bound: float
    multiplier: float
    budget: Budget | None = None

    def __post_init__(self) -> None:
        make_plain(GaussianDerivatives, self)
        _ = self.mechanism
        check_budget(self.budget)

    @classmethod
    def calibrated(
        cls, bound: float, epsilon: float, delta: float, uses: int = 1, budget: Budget | None = None
    ) -> Self:
        """Return the defence with the least noise for (epsilon, delta)-label privacy.

        Parameters
        ----------
        bound
            C, as above.
        epsilon, delta
            What so many uses of a row's label satisfy together.
        uses
            How often derivatives of a row leave; 1 calibrates each use by itself.
        budget
            By default without an end, told for this delta.

        Raises
        ------
        ConfigurationError
            If a number is out of range.
        """
        mechanism = Gaussian.calibrated(bound, epsilon, delta, uses)
        return cls(bound, mechanism.multiplier, budget or Budget(math.inf, delta))

    @property
    def mechanism(self) -> Gaussian:
        """What is done to the derivatives of rows' own losses."""
        return Gaussian(self.bound, self.multiplier)

    @property
    def limit(self) -> Budget:
        """The budget, which may be endless."""
        return self.budget or UNLIMITED

    def affords(self, layout: Layout, uses: int) -> bool:
        """Return whether so many uses of a row's label are within the budget."""
        return self.limit.affords(self._spent(uses))

    def spending(self, layout: Layout, uses: int) -> Mapping[str, Any]:
        """Return what so many uses of a row will cost of its label's privacy."""
        return told(RowUses.of([self._spent(uses)]), self.limit, OWN)

    def unlimited(self) -> GaussianDerivatives:
        """Return it without a budget."""
        return replace(self, budget=None)

    def _spent(self, uses: int) -> Spending:
        return Spending({self.mechanism.event(): uses})

    def games(self, layout: Layout) -> tuple[Game, ...]:
        """Return that of a row whose derivative turns around."""
        return (DerivativeGame(self, self.bound, self.mechanism.event(), layout),)

    def disclosures(self, layout: Layout) -> tuple[Disclosure, ...]:
        """Return what protects labels, and from what it does not."""
        return (
            Disclosure(
                "labels",
                "stay with the label holder; what derivatives tell of a row's label is bounded for "
                f"all parties together: of the row's own loss, {self.mechanism}",
                mechanism=f"derivatives {self.mechanism}",
            ),
            Disclosure(
                "labels, not covered",
                "what a label leaves in the top model, which shapes the derivatives of other rows; "
                "a loss that mixes rows, where a few do not show it; verdicts of early stopping; "
                "who sees predictions or models",
            ),
            source_of_secrets(layout.simulated),
        )

    def check_covers(self, loss: Loss, learned: Mapping[str, Any]) -> None:
        """Refuse those by which a label reaches the derivatives of other rows."""
        check_mean(loss)
        _check_learned(learned)

    def guard(self, layout: Layout, fusion: Fusion, holder: LabelHolder) -> Guard:
        """Make the label holder's half, whose top model keeps rows apart."""
        width = fusion.width(list(layout.widths.values()))
        labels = different_labels(holder.labels)
        # rows of which none is another moved or stretched, as a norm would take them for the same
        numbers = torch.arange(TRIED * width, dtype=torch.float64).square()
        fused = 2 * numbers.sin().float().reshape(TRIED, width)
        check_rows_apart("the top model", holder.top, "a label reaches the derivatives", fused)
        loss = holder.objective()
        self.check_covers(loss, holder.learned)
        check_labels_apart(holder.name, loss, holder.top, fused, labels)
        check_derivatives_apart(holder.name, loss, holder.top, fused, labels)
        return _Guard(self, layout, holder)


def _check_learned(learned: Mapping[str, Any]) -> None:
    """Refuse a loss or a top model that the labels of all training rows have had a part in."""
    if learned:
        raise ConfigurationError(
            f"loss and top model know {' and '.join(learned)} of all training labels, by which a "
            "label reaches the derivatives of other rows from the first round on, and noise on its "
            "own hides less than is told: say about where targets lie and how far apart, whatever "
            "they are, objective: {mean: 50, scale: 20}, or "
            "VerticalRegressor(target_mean=50, target_scale=20)"
        )


class _Guard(Guard):
    """Noise from the label holder's own secrets, and an account of labels."""

    def __init__(self, defence: GaussianDerivatives, layout: Layout, holder: LabelHolder) -> None:
        self._mechanism = defence.mechanism
        self._name = holder.name
        self._secrets = layout.secrets_for(holder.name, holder.secrets)
        event = self._mechanism.event()
        self._account = Account(
            layout.rows,
            partial(_use, event),
            defence.limit,
            layout.simulated,
            views=OWN,
            kind="labels_spent",
        )

    async def prepare(self, timetable: Timetable) -> None:
        """Take up what was released until now, and begin to draw under a number of its own."""
        notes = await Recall()
        self._source = self._secrets.begin(self._name, notes.incarnation)
        self._account.begin(notes.records, timetable)

    async def enter(self, rows: Rows, moment: Moment) -> None:
        await Commit(self._account.enter(rows, moment))

    def protected(self, derivatives: Mapping[str, Tensor], moment: Moment) -> dict[str, Tensor]:
        different = {id(each): each for each in derivatives.values()}  # parties may share one
        if not different:
            return {}
        together = torch.cat(list(different.values()), dim=1)
        batch = len(together)
        purpose = f"derivative/{moment.purpose.label}"
        noise = self._source.noise(purpose, moment.round, moment.part)
        noisy = self._mechanism.perturb(together * batch, noise).div_(batch)
        parts = torch.split(noisy, [each.shape[1] for each in different.values()], dim=1)
        sent = {key: part.contiguous() for key, part in zip(different, parts, strict=True)}
        return {party: sent[id(each)] for party, each in derivatives.items()}

    def report(self) -> Mapping[str, float]:
        return {f"label_{name}": value for name, value in self._account.report().items()}

    def spent(self) -> Mapping[str, Any]:
        return self._account.spent()

    def state_dict(self) -> dict[str, Any]:
        return {"account": self._account.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._account.load_state_dict(state["account"])


def _use(event: Event, purpose: Purpose, terms: int) -> Event:
    """Return what a use of a label is, whatever it is for."""
    return event
