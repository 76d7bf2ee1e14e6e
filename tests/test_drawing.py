"""Threads that try models while others make theirs."""

from __future__ import annotations

import threading

import torch
from torch import nn

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
