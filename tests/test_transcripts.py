"""What a privacy statement says, against every message of a run."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import colonnade as cn
from colonnade.codecs import Scalar
from colonnade.effects import Send, Work
from colonnade.models import Sum
from colonnade.privacy import FixedPoint, PoissonBinomial
from colonnade.testing.methods import small_federation
from colonnade.uplinks import Itemised, Masked
from colonnade.wire import Purpose


@dataclass
class Heard:
    """What a role does, with an ear at what it sends and computes."""

    course: Any
    name: str
    sent: list[tuple[str, Send]]
    made: list[tuple[str, str, Any]]

    def __await__(self) -> Generator[Any, Any, Any]:
        course, answer = self.course.__await__(), None
        while True:
            try:
                effect = course.send(answer)
            except StopIteration as end:
                return end.value
            if isinstance(effect, Send):
                self.sent.append((self.name, effect))
            answer = yield effect
            if isinstance(effect, Work):
                self.made.append((self.name, effect.kind, answer))


@dataclass(frozen=True)
class Transcribed(cn.Simulate):
    """The simulator, with a transcript of every message and of what came of every work."""

    def run(self, roles: Any, assignment: Any) -> Any:
        self.sent: list[tuple[str, Send]]
        object.__setattr__(self, "sent", [])
        object.__setattr__(self, "made", [])
        for role in roles:
            role.run = self._heard(role)
        return super().run(roles, assignment)

    def _heard(self, role: Any) -> Any:
        plain = role.run

        async def run() -> None:
            await Heard(plain(), role.name, self.sent, self.made)

        return run


TRAINING = cn.Training(epochs=1, batch_size=30, evaluation_rows=15, seed=5)


def transcribed(method: cn.Method, training: cn.Training = TRAINING) -> tuple[Any, cn.Run]:
    made = small_federation(method)
    parties = [replace(p, bottom=nn.Sequential(p.bottom, nn.Tanh())) for p in made.parties]
    federation = cn.Federation(
        parties, made.label_holder, made.train_rows, made.test_rows, None, made.validation_rows
    )
    driver = Transcribed()
    return driver, federation.train(method, training, driver)


def embeddings(driver: Any, party: str) -> list[torch.Tensor]:
    return [
        answer.detach() for name, kind, answer in driver.made if (name, kind) == (party, "forward")
    ]


def uploads(driver: Any, party: str, kind: str) -> list[bytes]:
    return [effect.body for name, effect in driver.sent if (name, effect.kind) == (party, kind)]


def test_in_the_clear_the_label_holder_has_every_embedding_as_the_statement_says() -> None:
    driver, run = transcribed(cn.Method("plain", Sum()))
    assert run.summary["privacy"]["mechanism"] == "none"
    assert "seen by the label holder" in run.summary["privacy"]["embeddings"]
    assert any("sees every party's embeddings" in warning for warning in run.summary["warnings"])
    for party in ("party_0", "party_1", "party_2"):
        for embedding, body in zip(
            embeddings(driver, party), uploads(driver, party, "embedding"), strict=True
        ):
            assert np.array_equal(np.frombuffer(body, np.float32), embedding.numpy().reshape(-1))


@pytest.mark.parametrize("summand", [FixedPoint(16), PoissonBinomial(16, 0.25)], ids=str)
def test_of_a_secure_sum_the_label_holder_has_the_sum_and_no_term(summand: Any) -> None:
    driver, run = transcribed(cn.Method("masked", Sum(), Masked(summand)))
    again, _ = transcribed(cn.Method("masked", Sum(), Masked(summand)))
    privacy = run.summary["privacy"]
    assert privacy["mechanism"].startswith("secure sum")
    assert "sums over 2 or more of the 3 parties" in privacy["embeddings"]
    private = isinstance(summand, PoissonBinomial)
    assert ("sums" in privacy) is not private  # sums without noise are told of
    assert any("exact sums" in warning for warning in run.summary["warnings"]) is not private
    # Of its own, the label holder makes sums: nothing that it has is one party's.
    collected = [made for name, kind, made in driver.made if (name, kind) == ("holder", "decode")]
    assert collected
    assert not any(isinstance(made, Itemised) for made in collected)
    for number, made in enumerate(collected):
        exact = sum(embeddings(driver, f"party_{i}")[number] for i in range(3))
        allowed = 2e-4 if not private else 8 * summand.squared_error(3) ** 0.5
        assert torch.allclose(made.total, exact, atol=allowed)
    # What a party uploads has nothing of its embeddings: the same run draws it anew.
    offers = len(uploads(driver, "party_0", "offer")[0])
    for party in ("party_0", "party_1", "party_2"):
        for one, other in zip(
            uploads(driver, party, "masked_embedding"),
            uploads(again, party, "masked_embedding"),
            strict=True,
        ):
            bits = np.unpackbits(np.frombuffer(one[offers:], np.uint8))
            others = np.unpackbits(np.frombuffer(other[offers:], np.uint8))
            same = int((bits == others).sum())
            assert abs(same - len(bits) / 2) < 6 * (len(bits) / 4) ** 0.5


@pytest.mark.parametrize("uplink", [cn.Plain(), Masked(PoissonBinomial(16, 0.25))], ids=str)
def test_labels_that_stay_are_in_no_message(uplink: Any) -> None:
    driver, run = transcribed(cn.Method("x", Sum(), uplink))
    assert run.summary["privacy"]["labels"].startswith("stay with the label holder")
    kinds = {effect.kind for name, effect in driver.sent if name == "holder"}
    assert kinds <= {"derivative", "keys", "request"}
    told = {effect.body for name, effect in driver.sent if effect.kind in ("keys", "request")}
    labels = small_federation(cn.Method("x", Sum())).label_holder.labels.numpy()
    for body in told:
        assert labels.astype(np.uint8).tobytes()[:16] not in body


def test_labels_that_are_shared_are_a_message_to_every_party() -> None:
    method = cn.methods.cvfl(Scalar(4), 2, Sum(), "shared")
    driver, run = transcribed(method)
    assert "known to every party" in run.summary["privacy"]["labels"]
    shared = [e for name, e in driver.sent if name == "holder" and e.purpose is Purpose.SETUP]
    assert {effect.receiver for effect in shared} == {"party_0", "party_1", "party_2"}


def test_a_simulation_says_so_and_its_transcript_repeats() -> None:
    method = cn.Method("masked", Sum(), Masked(PoissonBinomial(16, 0.25)))
    declared = replace(TRAINING, secrets="seed")
    (one, _), (other, _) = transcribed(method, declared), transcribed(method, declared)
    for name in ("party_0", "party_1", "party_2", "holder"):
        first, second = (
            [(effect.kind, effect.body) for sender, effect in heard.sent if sender == name]
            for heard in (one, other)
        )
        assert first == second
