"""Schedules: the codec of a round, and the errors that C-VFL's Theorem 4.4 asks for."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from colonnade.codecs import (
    QSGD,
    Bounded,
    ByRound,
    Codec,
    Contractive,
    Float,
    LargeRows,
    Lattice,
    Scalar,
    TopK,
    diminishing,
)
from colonnade.config import parse_config
from colonnade.errors import ConfigurationError
from colonnade.links import Direct
from colonnade.streams import StreamKey
from colonnade.testing.codecs import CHECKS, Subject
from test_codecs import step_of

SUBJECTS = [
    Subject(ByRound((Scalar(2), Scalar(4)), (0, 3)), step=partial(step_of, Scalar(4))),
    Subject(ByRound((TopK(0.1), TopK(0.5)), (0, 9))),
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("subject", SUBJECTS, ids=["scalar", "top-k"])
def test_a_schedule_conforms(subject: Subject, check: Callable[[Subject], None]) -> None:
    if (
        subject.codec.law((1, 1)) == Bounded(absolute=math.inf)
        and check.__name__ == "obeys_its_law"
    ):
        return
    check(subject)


def test_each_round_has_its_codec() -> None:
    codec = ByRound((Scalar(2), Scalar(3), Float(16)), (0, 5, 6))
    x, rows = torch.randn(4, 8, generator=torch.Generator().manual_seed(0)), np.arange(4)
    sender, receiver = Direct(codec).sender(4, 8, "one"), Direct(codec).receiver(4, 8, "other")
    for round, expected in ((0, Scalar(2)), (4, Scalar(2)), (5, Scalar(3)), (900, Float(16))):
        key = StreamKey(0, "bank", "training/embedding", round)
        body = sender.send(x, rows, key)
        assert body == expected.encode(x, key)
        assert torch.equal(receiver.receive(body, rows, key), expected.decode(body, (4, 8), key))


def test_its_law_is_what_all_promise() -> None:
    shape = (4, 25)
    assert ByRound((Scalar(2), Scalar(4)), (0, 1)).law(shape) == Scalar(3).law(shape)
    assert ByRound((TopK(0.1), TopK(0.5)), (0, 1)).law(shape) == Contractive(0.1)
    assert ByRound((TopK(0.1), QSGD(4, bucket=16)), (0, 1)).law(shape) == Contractive(0.1)
    assert ByRound((Scalar(2), Float(32)), (0, 1)).law(shape) == Bounded(absolute=math.inf)


@pytest.mark.parametrize(
    ("codecs", "rounds", "message"),
    [
        ((), (), "a first round for each codec"),
        ((Scalar(2),), (0, 1), "there are 1 codecs and 2 rounds"),
        ((Scalar(2),), (1,), "ascend from 0"),
        ((Scalar(2), Scalar(3)), (0, 0), "ascend from 0"),
    ],
)
def test_what_is_no_schedule_is_refused(codecs: Any, rounds: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        ByRound(codecs, rounds)


@pytest.mark.parametrize("kind", ["scalar", "lattice", "top_k"])
@pytest.mark.parametrize("error", [0.5, 20.0, 300.0])
def test_errors_stay_below_what_the_theorem_asks(kind: str, error: float) -> None:
    """Measured on batches in the range, against c / sqrt(t); coarser by a step would be above."""
    batch, width, rounds = 64, 16, 2000
    schedule = diminishing(kind, error, batch, width, -1.0, 1.0, rounds)
    generator = torch.Generator().manual_seed(1)
    for t in (1, 2, 10, 100, 500, rounds):
        codec: Codec = schedule.at(t - 1)
        errors = []
        for repetition in range(30):
            x = 2 * torch.rand(batch, width, generator=generator) - 1
            key = StreamKey(repetition, "bank", "training/embedding", t)
            y = codec.decode(codec.encode(x, key), (batch, width), key)
            errors.append(float(((y - x).double() ** 2).sum()))
        assert np.mean(errors) <= 1.05 * error / math.sqrt(t), (t, codec)


@pytest.mark.parametrize("sparse", [partial(TopK, 1.0), partial(LargeRows, 0.5)])
def test_a_schedule_of_what_is_sent_of_each_value(sparse: Any) -> None:
    codec = sparse(values=ByRound((Scalar(2), Scalar(5)), (0, 7)))
    assert codec.at(6) == sparse(values=Scalar(2))
    assert codec.at(7) == sparse(values=Scalar(5))
    assert codec.at(6).bytes_at_most((8, 8)) < codec.at(7).bytes_at_most((8, 8))


def test_more_than_eight_bits_are_floats() -> None:
    schedule = diminishing("scalar", 1e-2, 128, 16, -1, 1, 10**5)
    assert schedule.at(0) == Float(16)
    assert schedule.at(10**5 - 1) == Float(32)
    assert diminishing("lattice", 90.0, 128, 16, 0, 1, 1).at(0) == Lattice(1, 0, 1)
    assert diminishing("lattice", 90.0, 128, 16, 0, 1, 1, False).at(0) == Lattice(1, 0, 1, False)


@pytest.mark.parametrize(
    "arguments",
    [("scalar", 0.0, 1, 1, 0, 1, 1), ("scalar", 1.0, 1, 1, 1, 0, 1), ("cubic", 1.0, 1, 1, 0, 1, 1)],
)
def test_what_cannot_diminish_is_refused(arguments: Any) -> None:
    with pytest.raises(ConfigurationError):
        diminishing(*arguments)


def test_a_configuration_may_hold_a_schedule_of_anything() -> None:
    section = {
        "codec": "by_round",
        "rounds": [0, 10],
        "codecs": [
            {"codec": "entropy", "quantiser": {"codec": "scalar", "bits": 2}},
            {"codec": "top_k", "ratio": 0.5, "values": {"codec": "lattice", "bits": 3}},
        ],
    }
    config = parse_config({"method": {"embedding": section}})
    codec = config.method.build().uplink.link.codec  # type: ignore[attr-defined]  # a Direct link
    assert codec.at(0).quantiser == Scalar(2)
    assert codec.at(10).values == Lattice(3)
    assert parse_config(config.as_dict()) == config
