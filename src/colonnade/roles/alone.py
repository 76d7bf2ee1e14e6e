"""Rows that travel alone: whether models take them, before any does.

Of 21 rows in batches of 10 one is left. Whether a model of the user's own takes a batch of one row
is not known before it is tried, and where it does not, an epoch would be lost on finding out.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from colonnade.agreement import Agreement
from colonnade.models import check_one_row, take
from colonnade.organisations import LabelHolder, Party

__all__ = ["check_holder_alone", "check_party_alone"]


def check_party_alone(agreement: Agreement, party: Party) -> None:
    """Raise ``ConfigurationError`` if its model will meet a row alone, and does not take one."""
    _check_bottom(agreement, party, [*_in_batches(agreement), *_in_local_steps(agreement)])


def check_holder_alone(agreement: Agreement, holder: LabelHolder) -> None:
    """Raise ``ConfigurationError`` if a model of its will meet a row alone, and does not take it.

    Its local steps are on whole batches.
    """
    occasions, own = list(_in_batches(agreement)), holder.as_party()
    fused = agreement.method.fusion.width(list(agreement.layout.widths.values()))
    for training, reason in occasions:
        whose = f"the top model of {holder.name!r}"
        check_one_row(whose, holder.top, torch.zeros(1, fused), training, reason)
    if own is not None:
        _check_bottom(agreement, own, occasions)


def _check_bottom(agreement: Agreement, party: Party, occasions: list[tuple[bool, str]]) -> None:
    for training, reason in occasions:
        row = take(party.features, agreement.batches.rows(0)[:1])
        check_one_row(f"the bottom model of {party.name!r}", party.bottom, row, training, reason)


def _in_batches(agreement: Agreement) -> Iterator[tuple[bool, str]]:
    """Yield where a row is alone: whether that is in training, and what to do about it."""
    if 1 in agreement.batches.sizes:
        yield (
            True,
            f"of {len(agreement.train_rows)} training rows in batches of "
            f"{agreement.batches.batch_size} one is trained on alone; take another batch_size, or "
            "train on a row less",
        )
    if held_out := agreement.evaluation.alone():
        yield (
            False,
            f"of {len(held_out.rows)} {held_out.name} rows, of which a message has "
            f"{agreement.training.evaluation_rows}, one is evaluated alone; take another number of "
            "evaluation_rows",
        )


def _in_local_steps(agreement: Agreement) -> Iterator[tuple[bool, str]]:
    policy = agreement.method.local_updates
    for size in sorted(agreement.batches.sizes):
        if policy.least_rows(size) == 1 < size:
            yield (
                True,
                f"a local step takes the one row that is left of a batch of {size}; take another "
                f"batch_size, or other local updates than {policy!r}",
            )
