"""What leaves an organisation by what was agreed on: known before any of it does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from colonnade.agreement import Agreement
from colonnade.flows import Flow
from colonnade.ledger import Entry
from colonnade.wire import Purpose, carried_bytes, encode_header

__all__ = ["Leaving", "leaving_by", "leaving_in_training", "repeated"]

_NUMBER = 2**32 - 1  # in a header: no round and no sequence is greater


@dataclass(frozen=True)
class Leaving:
    """What leaves an organisation.

    Parameters
    ----------
    kinds
        Of its messages.
    bytes
        How many at most, envelopes included, if nobody is late and nothing has to be repeated; None
        where that hangs on what nobody knows before.
    of_embeddings, of_labels
        The accounts of privacy, as ``uplinks.account.told``, at most where the method lets a round
        go on without somebody; empty where none is kept.
    reported
        What the label holder reports of labels to all, and of how many rows that is at least.
    """

    kinds: frozenset[str]
    bytes: int | None = None
    of_embeddings: Mapping[str, Any] = field(default_factory=dict)
    of_labels: Mapping[str, Any] = field(default_factory=dict)
    reported: Mapping[str, int] = field(default_factory=dict)


def leaving_in_training(
    agreement: Agreement, name: str, repeated: Mapping[Purpose, int] = MappingProxyType({})
) -> Leaving:
    """Return what leaves an organisation while it trains.

    A message of each flow is counted as often as the exchange says that the uplink is used, or for
    each piece of an evaluation, or once before the first round; each as long as it can be. Rows are
    told of as often as is planned, and in as many rounds as ``repeated`` says besides.
    """
    method, layout = agreement.method, agreement.layout
    rounds, exchange = agreement.batches.rounds, method.exchange
    uses, in_vain = agreement.uses(rounds), dict(repeated)
    if again := repeated.get(Purpose.TRAINING, 0):
        in_vain[Purpose.TRAINING] = exchange.uploads(again, epoch=1)
    evaluation = agreement.evaluation
    pieces = len(evaluation.watched.pieces) * uses.get(Purpose.EVALUATION, 0)
    uploads = exchange.uploads(rounds, agreement.batches.rounds_per_epoch)
    times = {
        Purpose.TRAINING: uploads,
        Purpose.RELAY: uploads,
        Purpose.EVALUATION: pieces + len(evaluation.final.pieces),
        Purpose.SETUP: 1,
    }
    return Leaving(
        *leaving_by(agreement.flows(), name, times),
        method.uplink.spending(layout, uses, method.stragglers, in_vain),
        exchange.spending(layout, agreement.passes(rounds) + again),
        _reported(agreement),
    )


def _reported(agreement: Agreement) -> dict[str, int]:
    """Return of how many rows, at least, each loss or metric is that is reported."""
    evaluation, batches = agreement.evaluation, agreement.batches
    held_out = [each for each in (evaluation.watched, evaluation.final) if each]
    every = min(evaluation.every, batches.rounds) if evaluation.watched else batches.rounds
    rows = {f"metrics of {each.name}": len(each.rows) for each in held_out}
    return rows | {"train_loss": batches.fewest_rows(every)}


def repeated(lost: Iterable[Entry], rounds_per_epoch: int) -> dict[Purpose, int]:
    """Return in how many rounds or evaluations a row may have been told of in vain, by what for.

    Of what was sent after the checkpoint that a run goes on from, all is sent again. A row is in
    one batch of an epoch, and in one piece of an evaluation.

    Parameters
    ----------
    lost
        What an organisation has sent in vain, by and by.
    rounds_per_epoch
        Of training.

    Examples
    --------
    >>> lost = [
    ...     Entry("bank", "shop", "embedding", Purpose.TRAINING, round, n, 8, 9, None, lost=True)
    ...     for round, n in ((4, 10), (5, 11), (4, 10))  # it failed twice
    ... ]
    >>> repeated(lost, rounds_per_epoch=3) == {Purpose.TRAINING: 2}
    True
    """
    tries: dict[tuple[Purpose, int], int] = {}
    last: dict[tuple[Purpose, int, str, str], tuple[int, int]] = {}
    for entry in lost:
        which = (entry.purpose, entry.round, entry.kind, entry.receiver)
        before, times = last.get(which, (-1, 1))
        times += entry.sequence <= before  # numbers begin anew where the run does
        last[which] = entry.sequence, times
        tries[which[:2]] = max(times, tries.get(which[:2], 0))
    most: dict[tuple[Purpose, int], int] = {}
    for (purpose, round), times in tries.items():
        together = round // rounds_per_epoch if purpose is Purpose.TRAINING else round
        most[purpose, together] = max(times, most.get((purpose, together), 0))
    return {
        purpose: sum(times for (of, _), times in most.items() if of is purpose)
        for purpose in {purpose for purpose, _ in most}
    }


def leaving_by(
    flows: Iterable[Flow], name: str, times: Mapping[Purpose, int]
) -> tuple[frozenset[str], int]:
    """Return the kinds of an organisation's messages, and how many bytes they are at most.

    Each flow has a message to each receiver so often as ``times`` has of its purpose.
    """
    own = [flow for flow in flows if flow.sender == name and flow.receivers]
    most = 0
    for flow in own:
        header = encode_header(flow.kind, flow.purpose, _NUMBER, _NUMBER, _NUMBER)
        message = carried_bytes(header, flow.bytes_at_most)
        most += times[flow.purpose] * len(flow.receivers) * message
    return frozenset(flow.kind for flow in own), most
