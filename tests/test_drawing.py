"""Threads that try models while others make theirs."""

from __future__ import annotations

import threading
import traceback

import pytest
import torch
from torch import nn

from colonnade import Federation, LabelHolder, Party, Training, drawing, methods
from colonnade.assembly import _seeded
from colonnade.drivers.driver import perform
from colonnade.effects import Work
from colonnade.models.draws import drawing_alike
from colonnade.models.trial import tried


def made():
    return _seeded("bottom", 3, "bank", "bottom", lambda: nn.Linear(200, 200)).weight


def test_a_model_starts_alike_whatever_other_threads_try():
    expected, over = made(), threading.Event()
    dropping = nn.Dropout()

    def trying():
        while not over.is_set():
            with drawing_alike():
                torch.rand(1)
            tried(dropping, torch.ones(2, 2), training=True)

    other = threading.Thread(target=trying)
    other.start()
    try:
        assert all(torch.equal(made(), expected) for _ in range(300))
    finally:
        over.set()
        other.join()


def test_who_listens_for_requests_keeps_nobody_from_work():
    came, over = threading.Event(), threading.Event()

    def listened():
        came.set()
        return over.wait(20)

    listen = Work("listen", listened, 0)
    other = threading.Thread(target=perform, args=(listen, "shop", 0))
    other.start()
    try:
        assert came.wait(20)
        done, _ = perform(Work("forward", other.is_alive, 0), "bank", 0)
        assert done, "the work was done when nobody listened any more"
    finally:
        over.set()
        other.join()


alone = []  # where something computed that held nothing


class Watched(nn.Module):
    """Notes where it computes while other threads may seed torch's generator."""

    def forward(self, x):
        if not drawing._one._is_owned():
            alone.append("".join(traceback.format_stack(limit=4)))
        return x


class WatchedLoss(nn.CrossEntropyLoss):
    def forward(self, scores, labels):
        return super().forward(Watched()(scores), labels)


@pytest.mark.parametrize(
    "method",
    [methods.svfl(), methods.wait_dp(), methods.celu(3, 3), methods.fedbcd(3)],
    ids=["svfl", "wait_dp", "celu_vfl", "fedbcd"],
)
def test_nothing_of_somebodys_computes_while_others_may_draw(method):
    alone.clear()
    x, labels = torch.randn(60, 4), torch.arange(60) % 2
    parties = [Party(n, x, nn.Sequential(nn.Linear(4, 4), Watched(), nn.Tanh())) for n in "ab"]
    top = nn.Sequential(Watched(), nn.Linear(8, 2))
    holder = LabelHolder("c", labels, top=top, loss=WatchedLoss())
    federation = Federation(parties, holder, range(40), range(40, 60))
    federation.train(method, Training(epochs=1, batch_size=10), report=False)
    assert not alone, alone[0]
