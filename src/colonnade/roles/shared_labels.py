"""How parties come to know the labels, where an exchange shares them: once, before round 0.

The label holder sends every party the labels of the training rows, in the order in which those were
agreed on, as a message with the purpose ``setup``. A checkpoint holds what a party received, so a
run that goes on from one does not send them again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from colonnade.agreement import Agreement
from colonnade.effects import Expect, Purpose, Receive, Send, Work
from colonnade.errors import ConfigurationError
from colonnade.flows import Flow
from colonnade.labelling import LabelForm
from colonnade.links import Rows
from colonnade.wire import reading

__all__ = ["LABELS", "LabelsReceiver", "LabelsSender", "labels_flow"]

LABELS = "labels"


def labels_flow(agreement: Agreement) -> Flow:
    """Return the flow of the labels to every party."""
    layout, form = agreement.layout, _form(agreement)
    rows = len(agreement.train_rows)
    holder, parties = layout.label_holder, layout.parties
    return Flow(holder, parties, LABELS, Purpose.SETUP, form, rows, form.width, 0)


class LabelsSender:
    """The label holder's half.

    Parameters
    ----------
    agreement
        What all organisations know, the form of the labels among it.
    labels
        A label for each row.
    """

    def __init__(self, agreement: Agreement, labels: Tensor) -> None:
        self._form = _form(agreement)
        self._parties = agreement.layout.parties
        self._rows = agreement.train_rows
        self._labels = labels
        self._sent = False

    async def prepare(self) -> None:
        """Send the labels, unless that was done before."""
        if self._sent:
            return
        body = await Work("encode", self._encode, 0, Purpose.SETUP, rows=len(self._rows))
        for party in self._parties:
            await Send(party, LABELS, 0, body, Purpose.SETUP)
        self._sent = True

    def _encode(self) -> bytes:
        return self._form.encode(self._labels[torch.from_numpy(self._rows)])

    def state_dict(self) -> dict[str, Any]:
        """Return whether they were sent."""
        return {"sent": self._sent}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        self._sent = state["sent"]


class LabelsReceiver:
    """A party's half, and where its role looks labels up.

    Parameters
    ----------
    agreement
        What all organisations know, the form of the labels among it.
    """

    def __init__(self, agreement: Agreement) -> None:
        self._form = _form(agreement)
        self._label_holder = agreement.layout.label_holder
        self._rows = agreement.train_rows
        # Where the label of a row of the aligned table is among those that were sent.
        self._places = np.full(agreement.layout.rows, -1, dtype=np.int64)
        self._places[self._rows] = np.arange(len(self._rows))
        self._body: bytes | None = None
        self._labels: Tensor | None = None

    async def prepare(self) -> None:
        """Receive the labels, unless they are here."""
        if self._body is not None:
            return
        expect = Expect(LABELS, 0, (self._label_holder,), Purpose.SETUP)
        body = (await Receive(expect)).only.body
        await Work("decode", lambda: self._take(body), 0, Purpose.SETUP, rows=len(self._rows))

    def _take(self, body: bytes) -> None:
        with reading(self._label_holder, 0):
            self._labels = self._form.decode(body, len(self._rows))
        self._body = body

    def of(self, rows: Rows) -> Tensor:
        """Return the labels of some training rows."""
        assert self._labels is not None  # prepare comes first
        return self._labels[torch.from_numpy(self._places[rows])]

    def state_dict(self) -> dict[str, Any]:
        """Return what was received, as it was sent."""
        return {"body": None if self._body is None else np.frombuffer(self._body, dtype=np.uint8)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        if state["body"] is not None:
            self._take(state["body"].tobytes())


def _form(agreement: Agreement) -> LabelForm:
    if agreement.labels is None:
        raise ConfigurationError(
            "the exchange shares the labels, so all must know what they look like: give the "
            "Agreement labels=LabelForm.classes(10), say, or labels=LabelForm.numbers()"
        )
    return agreement.labels
