"""The method kit over our methods, and over parts that somebody else might write."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from types import MappingProxyType

import pytest
import torch

from colonnade import local_updates
from colonnade.codecs import Entropy, Float, LargeRows, Scalar, TopK
from colonnade.config.registry import GROUPS
from colonnade.effects import Work
from colonnade.errors import ConfigurationError
from colonnade.exchanges import Asynchronous, EventDriven, Relay, Split
from colonnade.links import Direct, ErrorFeedback, LearnedEntropy
from colonnade.local_updates import (
    Consecutive,
    LocalStep,
    LocalUpdates,
    Proximal,
    Replayed,
    Workset,
)
from colonnade.method import Method
from colonnade.methods import cvfl, efvfl, fedbcd, lean, svfl, vafl
from colonnade.models import Concat, Mean, Sum
from colonnade.privacy import Gaussian
from colonnade.stragglers import Deadline, Fastest
from colonnade.testing.methods import (
    METHOD_CHECKS,
    MethodSubject,
    accounts_for_what_left_in_vain,
    has_the_steps_that_it_declares,
    is_planned,
    names_who_sent_a_spoilt_body,
    predicts_as_it_evaluates,
    says_how_few_rows_a_step_has,
    sends_no_more_than_is_told_before,
    sets_up_before_anything_else,
    takes_the_steps_that_it_accepts,
)
from colonnade.uplinks import Perturbed, Plain, Uplink
from toy_exchange import KIND, Common, CommonParty, Doubled
from toy_masked import Masked, MaskedUploader

pytestmark = pytest.mark.usefixtures("no_pictures")


class Deaf(Common):
    """Says of nothing that it takes it."""

    takes_steps = frozenset()


class Boaster(Common):
    """Says that it takes every kind of step, and takes the repeated ones alone."""

    takes_steps = frozenset(LocalStep)


@dataclass(frozen=True)
class Silent(LocalUpdates):
    """Has steps of the parties, and says of none."""

    kinds = frozenset()

    def party_steps(self):
        return Proximal().party_steps()


@dataclass(frozen=True)
class Idle(LocalUpdates):
    """Says of steps of the label holder, and has none."""

    kinds = frozenset({LocalStep.STALE_EMBEDDINGS})


@dataclass(frozen=True)
class Forgetful(LocalUpdates):
    """Goes through a batch in parts, and does not say how few rows a part has."""

    rows: int
    kinds = frozenset({LocalStep.STALE_DERIVATIVES})

    def party_steps(self):
        return Proximal(1, self.rows).party_steps()


class Taciturn(Doubled):
    """Uses the uplink twice in a round, and says once."""

    def uploads(self, rounds, epoch):
        return rounds


class Shy(Doubled):
    """Says of all rows that each is sent twice in a round, and of one that it is sent once."""

    def uploads(self, rounds, epoch):
        return rounds if epoch == 1 else 2 * rounds


class Cut(Common):
    """Reads bodies without saying whose they are."""

    def party(self, agreement, seat):
        return CutParty(agreement, seat)


class CutParty(CommonParty):
    def read(self, body, rows, moment):
        key = moment.key(self._seed, self._label_holder, KIND)
        return Float().decode(body, (len(rows), self.width), key)


class Filled(Common):
    """Takes what is missing of a body for zeros."""

    def party(self, agreement, seat):
        return FilledParty(agreement, seat)


class FilledParty(CommonParty):
    def read(self, body, rows, moment):
        return super().read(body.ljust(4 * len(rows) * self.width, b"\0"), rows, moment)


@dataclass(frozen=True)
class Noisy(Masked):
    """The masked sum of embeddings, to each of which noise is added, anew whenever it is sent."""

    def uploader(self, layout, party):
        return NoisyUploader(layout, party)


class NoisyUploader(MaskedUploader):
    def masked(self, embedding, moment):
        key = moment.key(self.layout.seed, self.party.name, f"noise/{moment.purpose.label}")
        generator = torch.Generator().manual_seed(int(key.words()[0]) >> 1)
        return super().masked(embedding + torch.randn(embedding.shape, generator=generator), moment)


class Forgiving(Uplink):
    """Says that what left in vain makes all the rest cost less."""

    def spending(self, layout, uses, stragglers, in_vain=MappingProxyType({})):
        return {"epsilon": float(sum(uses.values()) - sum(in_vain.values()))}


@dataclass(frozen=True)
class Hasty(Masked):
    """Sets up by work that is said to be of training."""

    def uploader(self, layout, party):
        return HastyUploader(layout, party)


class HastyUploader(MaskedUploader):
    async def prepare(self, timetable):
        await Work("keys", lambda: None, 0)
        await super().prepare(timetable)


SUBJECTS = {
    "svfl": MethodSubject(svfl(), like=fedbcd(1)),
    "scalar both ways": MethodSubject(svfl(Scalar(3), Scalar(8)), steps=False),
    "cvfl, codes": MethodSubject(cvfl(Scalar(4), 2, Concat(), "shared")),
    "cvfl, total": MethodSubject(
        cvfl(Scalar(4), 2, Sum(), "shared", others="total"),
        like=cvfl(Scalar(4), 2, Sum(), "shared"),
        tolerance=1e-5,
    ),
    "efvfl": MethodSubject(efvfl(TopK(0.3))),
    "efvfl, shared": MethodSubject(efvfl(TopK(0.3), None, Mean(), "shared", 2)),
    "lean": MethodSubject(lean()),
    "celu": MethodSubject(
        Method(
            "celu",
            Mean(),
            Plain(ErrorFeedback(TopK(0.5))),
            Asynchronous(Direct(LargeRows(0.5, Scalar(4)))),
            Workset(2, 2, 0.3),
        ),
    ),
    "celu, deadline": MethodSubject(
        Method(
            "celu, deadline",
            Mean(),
            exchange=Asynchronous(),
            local_updates=Workset(3, 2, 0.2),
            stragglers=Deadline(60),
        ),
    ),
    "celu, masked": MethodSubject(
        Method("celu, masked", Sum(), Masked(), Asynchronous(), Workset(3, 2, 0.2)),
        like=Method("plain", Sum(), exchange=Asynchronous()),
        tolerance=1e-5,
    ),
    "vafl": MethodSubject(vafl(), like=svfl()),
    "vafl, compressed": MethodSubject(
        Method(
            "vafl, compressed",
            Mean(),
            Plain(ErrorFeedback(TopK(0.5))),
            EventDriven(Direct(LargeRows(0.5, Scalar(4)))),
        ),
    ),
    "vafl, learned": MethodSubject(
        Method("vafl, learned", Sum(), Plain(LearnedEntropy(Scalar(4))), EventDriven()),
    ),
    "noisy": MethodSubject(Method("noisy", Sum(), Noisy()), noise=0.5, steps=False),
    "proximal": MethodSubject(Method("proximal", local_updates=Proximal(2, 3))),
    "replayed": MethodSubject(
        Method(
            "replayed",
            uplink=Plain(Direct(Entropy(Scalar(4)))),
            exchange=Split(Direct(LargeRows(0.5, Scalar(4)))),
            local_updates=Replayed(3, batches=4),
        )
    ),
    "deadline that nobody misses": MethodSubject(
        Method("deadline", Mean(), stragglers=Deadline(60)),
        like=Method("plain", Mean()),
        steps=False,
    ),
    "deadline, steps": MethodSubject(
        Method(
            "deadline",
            Sum(),
            Plain(Direct(Scalar(6))),
            local_updates=Consecutive(2),
            stragglers=Deadline(60),
        )
    ),
    "deadline, replayed": MethodSubject(
        Method("deadline", Mean(), local_updates=Replayed(2, 3), stragglers=Deadline(60, "stale"))
    ),
    "stale, never late": MethodSubject(
        Method("stale", Concat(), stragglers=Deadline(60, "stale")),
        like=Method("plain", Concat()),
        steps=False,
    ),
    "masked": MethodSubject(
        Method("masked", Sum(), Masked()),
        like=Method("plain", Sum()),
        tolerance=1e-5,
        steps=False,
    ),
    "masked, mean, 3 steps": MethodSubject(
        Method("masked", Mean(), Masked(), local_updates=Consecutive(3)),
        like=Method("plain", Mean()),
        tolerance=1e-5,
    ),
    "masked, replayed": MethodSubject(
        Method("masked", Mean(), Masked(), local_updates=Replayed(2, batches=3)),
        like=Method("plain", Mean()),
        tolerance=1e-5,
    ),
    "common": MethodSubject(Method("common", Sum(), exchange=Common()), like=Method("p", Sum())),
    "twice, noisy": MethodSubject(
        Method("twice", Sum(), Perturbed(Gaussian(2.0, 0.05)), Doubled()), noise=0.5, steps=False
    ),
    "common, masked": MethodSubject(
        Method("common", Mean(), Masked(), Common()),
        like=Method("p", Mean()),
        tolerance=1e-5,
        steps=False,
    ),
}


@pytest.mark.parametrize("check", METHOD_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("subject", SUBJECTS.values(), ids=list(SUBJECTS))
def test_a_method_conforms(subject, check):
    check(subject)


def test_noise_that_is_not_declared_is_caught():
    with pytest.raises(AssertionError, match=r"predicts at .*, and reports"):
        predicts_as_it_evaluates(replace(SUBJECTS["noisy"], noise=0.0))


def test_an_account_that_forgets_what_left_in_vain_is_caught():
    forgiving = type("ForgivingPlain", (Forgiving, Plain), {})
    with pytest.raises(AssertionError, match="with uses in vain besides epsilon is"):
        accounts_for_what_left_in_vain(MethodSubject(Method("f", Sum(), forgiving())))


def test_an_exchange_that_tells_too_few_bytes_is_caught():
    taciturn = MethodSubject(Method("t", Sum(), exchange=Taciturn()), steps=False)
    with pytest.raises(AssertionError, match=r"'party_0' sends \d+ bytes, and by flows and"):
        sends_no_more_than_is_told_before(taciturn)


def test_an_exchange_that_tells_too_few_uses_of_a_row_is_caught():
    shy = MethodSubject(replace(SUBJECTS["twice, noisy"].method, exchange=Shy()), steps=False)
    with pytest.raises(AssertionError, match=r"epsilon is .* in the run, and .* is told before"):
        sends_no_more_than_is_told_before(shy)


def test_what_sets_up_by_anything_else_is_caught():
    hasty = MethodSubject(Method("h", Sum(), Hasty()))
    with pytest.raises(AssertionError, match=r"prepare of 'party_0' awaits Work\(kind='keys'"):
        sets_up_before_anything_else(hasty)


def test_a_plan_is_compared_with_a_run_in_the_same_time():
    """Where it depends on the time of messages whom a round waits for, and who is sent a word."""
    is_planned(MethodSubject(Method("quorum", Mean(), stragglers=Fastest(2))))


def test_an_exchange_that_claims_steps_which_it_leaves_out_is_caught():
    boasting = MethodSubject(Method("b", Sum(), exchange=Boaster()))
    with pytest.raises(AssertionError, match="trains as no local step does"):
        takes_the_steps_that_it_accepts(boasting)


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        (Silent(), "says it has the steps none, and has STALE_DERIVATIVES"),
        (Idle(), "says it has the steps STALE_EMBEDDINGS, and has none"),
    ],
)
def test_a_policy_that_does_other_than_it_declares_is_caught(policy, why):
    with pytest.raises(AssertionError, match=why):
        has_the_steps_that_it_declares(MethodSubject(Method("m", local_updates=policy)))


@pytest.mark.parametrize("rows", [1, 7, 32, 256])
def test_a_policy_with_smaller_steps_than_it_says_is_caught(rows):
    forgetful = MethodSubject(Method("m", local_updates=Forgetful(rows)))
    with pytest.raises(
        AssertionError, match=r"takes a step of \d+ rows after a batch of \d+, and "
    ):
        says_how_few_rows_a_step_has(forgetful)


@pytest.mark.parametrize(
    ("exchange", "why"),
    [
        (Cut(), "a common of 'holder' .* cut short by a byte is refused without saying whose"),
        (Filled(), "a common of 'holder' .* cut short by a byte is taken"),
    ],
)
def test_who_does_not_say_whose_body_is_spoilt_is_caught(exchange, why):
    with pytest.raises(AssertionError, match=why):
        names_who_sent_a_spoilt_body(MethodSubject(Method("m", Sum(), exchange=exchange)))


def test_what_cannot_be_composed_is_refused():
    for make, why in (
        (lambda: Method("x", Sum(), Masked(), Relay("shared")), "does not show the label holder"),
        (lambda: Method("x", Concat(), Masked()), "masked sum is all"),
        (lambda: Method("x", Concat(), stragglers=Deadline(1)), "needs one of each party"),
        (lambda: Method("x", Concat(), exchange=Common()), "right for fusion by sum"),
        (
            lambda: Method("x", Sum(), exchange=Common(), local_updates=Replayed()),
            "replaying is for exchanges in which",
        ),
        (lambda: Method("x", Sum(), exchange=Common(), stragglers=Deadline(1)), "without a party"),
        (
            lambda: Method("x", Sum(), exchange=Deaf(), local_updates=Consecutive(2)),
            r"repeats the step of a round, which .* Deaf does not: say Consecutive\(1\)",
        ),
        (lambda: Method("x", Sum(), Masked(), stragglers=Deadline(1)), "every message in order"),
        (lambda: Plain(held_out=ErrorFeedback(TopK(0.1))), "cannot remember them"),
        (
            lambda: Method("x", Mean(), Plain(ErrorFeedback(TopK(0.1))), stragglers=Deadline(1)),
            "needs every message in order",
        ),
        (
            lambda: Method("x", Mean(), exchange=Relay("shared"), stragglers=Deadline(1)),
            "waits for everybody",
        ),
        (lambda: Method("x", Sum(), Masked(), EventDriven()), "does not show the label holder"),
        (
            lambda: Method("x", exchange=EventDriven(), stragglers=Deadline(1, "stale")),
            "leave Deadline out",
        ),
        (
            lambda: Method("x", exchange=EventDriven(), local_updates=Consecutive(2)),
            r"EventDriven does not: say Consecutive\(1\)",
        ),
        (
            lambda: Method("x", exchange=EventDriven(), local_updates=Workset()),
            "EventDriven does not",
        ),
        (lambda: Method("x", uplink=Plain), "is a value, not a class"),
        (lambda: Method("x", stragglers="wait"), r"or Wait\(\), not 'wait': a part of your own"),
    ):
        with pytest.raises(ConfigurationError, match=why):
            make()


@pytest.mark.parametrize("part", ["fusion", "uplink", "exchange", "local_updates", "stragglers"])
def test_what_is_no_part_of_a_method_is_told_all_parts_that_there_are(part):
    (group,) = (group for group in GROUPS.values() if group.key == part)
    with pytest.raises(ConfigurationError) as refused:
        Method("x", **{part: "nothing"})
    said = str(refused.value).split(", not ")[0]
    assert set(re.findall(r"(\w+)\(", said)) == {made.__name__ for made in group.ours.values()}


def test_a_part_that_is_added_to_its_room_is_told_of(monkeypatch):
    monkeypatch.setattr(local_updates, "Silent", Silent, raising=False)
    monkeypatch.setattr(local_updates, "__all__", [*local_updates.__all__, "Silent"])
    with pytest.raises(ConfigurationError, match=r"Workset\(\.\.\.\) or Silent\(\), not 'none'"):
        Method("x", local_updates="none")
