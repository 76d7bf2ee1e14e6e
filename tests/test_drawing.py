"""Threads that try models while others make theirs."""

from __future__ import annotations

import threading

import torch
from torch import nn

from colonnade.assembly import _seeded
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
