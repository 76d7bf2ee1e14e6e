"""The masked uplink: any federation over secure sums."""

from __future__ import annotations

import shutil
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import colonnade as cn
from colonnade.channels import Channel, Gateway, Network
from colonnade.costs import Delayed, Modelled
from colonnade.delays import Exponential
from colonnade.drivers import Assignment, Processes, Simulate
from colonnade.effects import Boundary, Commit, Notes, Recall, Send, Work
from colonnade.errors import (
    BudgetExhausted,
    CheckpointError,
    ConfigurationError,
    RemoteProtocolError,
)
from colonnade.evaluation import HeldOut
from colonnade.exchanges import Asynchronous
from colonnade.journals import Journal
from colonnade.layout import Layout
from colonnade.local_updates import Proximal, Replayed, Workset
from colonnade.models import Learner, Mean, Sum
from colonnade.privacy import BinomialSum, Budget, FixedPoint, PoissonBinomial, RowUses, Spending
from colonnade.secure import SumHolder
from colonnade.stragglers import Deadline, Fastest, Wait
from colonnade.testing.methods import (
    METHOD_CHECKS,
    MethodSubject,
    small_federation,
)
from colonnade.uplinks import Masked, Moment
from colonnade.wire import Purpose


def bounded(method: Any, holder_has_features: bool = True) -> cn.Federation:
    """Return the kit's federation, with bottoms that end in tanh."""
    made = small_federation(method, holder_has_features)
    parties = [
        replace(party, bottom=nn.Sequential(party.bottom, nn.Tanh())) for party in made.parties
    ]
    return cn.Federation(
        parties,
        made.label_holder,
        made.train_rows,
        made.test_rows,
        None,
        made.validation_rows,
    )


pytestmark = pytest.mark.usefixtures("no_pictures")

EXACT = Masked(FixedPoint(16))
NOISY = Masked(PoissonBinomial(64, 0.25))
SUBJECTS = {
    "exact sum": MethodSubject(
        cn.Method("exact", Sum(), EXACT),
        like=cn.Method("plain", Sum()),
        tolerance=2e-3,
        federation=bounded,
    ),
    "exact mean": MethodSubject(
        cn.Method("mean", Mean(), EXACT),
        like=cn.Method("plain", Mean()),
        tolerance=2e-3,
        federation=bounded,
        steps=False,
    ),
    "private": MethodSubject(
        cn.Method("pbm", Sum(), NOISY), federation=bounded, noise=0.5, steps=False
    ),
    "private, consecutive": MethodSubject(
        cn.Method("pbm", Sum(), NOISY, local_updates=cn.Consecutive(3)),
        federation=bounded,
        noise=0.5,
    ),
    "private, asynchronous": MethodSubject(
        cn.Method(
            "pbm",
            Sum(),
            NOISY,
            exchange=cn.Asynchronous(),
            local_updates=cn.Workset(3, 2, 0.5),
        ),
        federation=bounded,
        noise=0.5,
    ),
    "deadline": MethodSubject(
        cn.Method("exact", Sum(), EXACT, stragglers=Deadline(0.5)),
        federation=bounded,
        steps=False,
    ),
}


@pytest.mark.parametrize("check", METHOD_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("subject", SUBJECTS.values(), ids=list(SUBJECTS))
def test_it_keeps_the_contract(subject: MethodSubject, check: Any) -> None:
    check(subject)


def test_what_it_cannot_live_with_is_refused_with_the_reason() -> None:
    with pytest.raises(ConfigurationError, match="fusion by concat needs each embedding"):
        cn.Method("x", uplink=NOISY)
    with pytest.raises(ConfigurationError, match="Deadline puts an earlier embedding in place"):
        cn.Method("x", Sum(), NOISY, stragglers=Deadline(1.0, "stale"))
    with pytest.raises(ConfigurationError, match="threshold is 1"):
        Masked(NOISY.mechanism, threshold=1)
    with pytest.raises(
        ConfigurationError, match=r"threshold of Masked is a whole number or None, not 2\.5"
    ):
        Masked(NOISY.mechanism, threshold=2.5)  # type: ignore[arg-type]
    many = tuple(f"party_{i}" for i in range(256))
    with pytest.raises(ConfigurationError, match="of 256 parties cannot be: it has 255 at most"):
        NOISY.disclosures(Layout(many, "holder", dict.fromkeys(many, 4), 9, 0))
    with pytest.raises(ConfigurationError, match="'bank' is 'xyz', but a public identity is 64"):
        Masked(NOISY.mechanism, identities={"bank": "xyz"})
    method = cn.Method("x", Sum(), replace(NOISY, threshold=4))
    with pytest.raises(ConfigurationError, match="of 3 parties cannot have 4"):
        bounded(method).train(method)
    method = cn.Method("x", Sum(), replace(NOISY, identities={"bank": "11" * 32}))
    with pytest.raises(ConfigurationError, match="identities has bank, but the parties are"):
        bounded(method).train(method)


def test_an_embedding_beyond_the_bound_is_refused() -> None:
    method = cn.Method("x", Sum(), NOISY)
    made = bounded(method)
    wide = replace(made.parties[1], bottom=nn.Sequential(made.parties[1].bottom, Doubled()))
    federation = cn.Federation([made.parties[0], wide, made.parties[2]], made.label_holder)
    with pytest.raises(ConfigurationError, match="let the bottom model end in tanh"):
        federation.train(method)


class Doubled(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 4 * x


# Who is late

SOON = Modelled({"encode": 2.0}, otherwise=0.001)


@pytest.mark.parametrize("policy", [Fastest(1), Fastest(2), Deadline(0.3)], ids=str)
def test_what_suffices_is_told_by_those_who_can_upload(policy: Any) -> None:
    """Neither a small quorum nor who offers, which takes no encoding, ends a round too early."""
    method = cn.Method("late", Sum(), replace(NOISY, threshold=2), stragglers=policy)
    lines = {
        ("party_1", "holder"): Channel(latency=0.6),
        ("party_2", "holder"): Channel(latency=0.01),
    }
    driver = Simulate(Network(pairs=lines), SOON)
    training = replace(TRAINING, epochs=1, evaluate_every=100)
    run = bounded(method).train(method, training, driver, report=False)
    sent = [(e.sender, e.kind) for e in run.ledger if e.purpose is Purpose.TRAINING]
    assert ("party_1", "offer") in sent
    planned = cn.plan(bounded(method), method, training, driver)
    assert planned.rounds == run.summary["rounds"]
    assert not planned.exact


WORLD = Simulate(
    Network(
        Channel(bandwidth=2e6, latency=0.002, jitter=0.002),
        gateways={"holder": Gateway(5e6), "party_2": Gateway(3e6)},
    ),
    Delayed(Modelled(otherwise=0.001), {"party_1": Exponential(mean=0.02)}),
)
TIMED = {
    "the fastest": cn.Method("late", Sum(), replace(EXACT, threshold=2), stragglers=Fastest(2)),
    "a deadline": cn.Method("late", Sum(), replace(EXACT, threshold=2), stragglers=Deadline(0.01)),
    "a workset": cn.Method("celu", Sum(), EXACT, Asynchronous(), Workset(3, 5, None)),
    "proximal": cn.Method("steps", Sum(), EXACT, Asynchronous(), Proximal(2, 8, 0.05)),
    "replayed": cn.Method(
        "late", Sum(), replace(EXACT, threshold=2), Asynchronous(), Replayed(6, 8), Deadline(0.02)
    ),
}


@pytest.mark.parametrize("method", TIMED.values(), ids=TIMED)
def test_a_simulated_run_that_time_decides_goes_on_as_one_that_nobody_interrupted(
    tmp_path: Path, method: cn.Method
) -> None:
    """Keys are agreed on anew, which takes no time, and who was late is no member still."""
    training = replace(TRAINING, secrets="seed")
    assert method.timed
    whole = bounded(method).train(method, training, WORLD, report=False)
    for stops in ([2], [5], [3, 4, 8]):
        out = tmp_path / str(stops)
        for stop in (*stops, None):
            run = bounded(method).train(
                method, training, WORLD, out=out, resume=True, stop_before=stop, report=False
            )
        assert run.history.equals(whole.history)
        for name in ("seconds_virtual", "final", "bytes_up", "bytes_down", "local_updates"):
            assert run.summary[name] == whole.summary[name]
        for organisation, models in whole.models.items():
            for part, model in models.items():
                again = run.models[organisation][part].state_dict()
                for key, value in model.state_dict().items():
                    assert torch.equal(again[key], value)
        assert run.summary["bytes_setup"] > whole.summary["bytes_setup"]


def test_a_checkpoint_that_tells_no_members_is_gone_on_from_with_everybody() -> None:
    method = cn.Method("exact", Sum(), EXACT)
    layout = bounded(method).agreement(method, replace(TRAINING, secrets="seed")).layout
    collector = EXACT.collector(layout, Sum(), Wait())
    state = collector.state_dict()
    assert state.pop("members") == [*layout.parties]
    again = EXACT.collector(layout, Sum(), Wait())
    again.load_state_dict(state)
    assert again.state_dict()["members"] == [*layout.parties]


@pytest.mark.parametrize("watched", [1, 100])
def test_an_evaluation_is_of_the_whole_model_whoever_was_late(watched: int) -> None:
    method = cn.Method("late", Sum(), EXACT, stragglers=Deadline(0.1))
    line = {("party_1", "holder"): Channel(latency=0.4)}
    training = replace(TRAINING, epochs=1, evaluate_every=watched)
    federation = bounded(method)
    run = federation.train(
        method, training, Simulate(Network(pairs=line), Modelled(otherwise=0.001)), report=False
    )
    assert "skipped" in {entry.kind for entry in run.ledger}
    members = [*federation.parties, federation.label_holder.as_party()]
    rows = torch.from_numpy(federation.test_rows)
    scores = run.predict({member.name: member.features[rows] for member in members}).scores
    true = torch.nn.functional.cross_entropy(scores, federation.label_holder.labels[rows])
    assert run.summary["test"]["log_loss"] == pytest.approx(float(true), abs=1e-6)
    evaluated = [e for e in run.ledger if e.purpose is Purpose.EVALUATION and e.kind == "offer"]
    assert len(evaluated) == 3 * len({e.round for e in evaluated})  # of everybody, and once
    assert not [e for e in run.ledger if e.discarded and e.purpose is Purpose.EVALUATION]


# What is spent, and what a crash repeats

PRIVATE = cn.Method("pbm", Sum(), Masked(PoissonBinomial(4, 0.1)))
TRAINING = cn.Training(epochs=3, batch_size=16, evaluation_rows=7, checkpoint_every=2)


def without_newest_checkpoint(out: Path) -> int:
    """Take the newest checkpoint away, as if the run had been killed; return the one before."""
    newest, before = sorted((out / "checkpoint").glob("round-*"), reverse=True)[:2]
    shutil.rmtree(newest)
    (out / "checkpoint" / "latest").unlink(missing_ok=True)
    return int(before.name.removeprefix("round-"))


def spent_by_hand(rounds: list[int], evaluations: int) -> float:
    """Return epsilon of the rows that were used most, in these rounds and evaluations."""
    federation = bounded(PRIVATE)
    agreed = federation.agreement(PRIVATE, TRAINING)
    uses = RowUses(federation.rows)
    event = BinomialSum(4, 0.1, terms=3, components=4)
    for round in rounds:
        uses.add(event, agreed.batches.rows(round))
    for _ in range(evaluations):
        uses.add(event, federation.validation_rows)
    uses.add(event, federation.test_rows)
    return uses.epsilon(1e-5).value


def test_epsilon_is_that_of_every_release_of_the_row_that_had_most() -> None:
    run = bounded(PRIVATE).train(PRIVATE, TRAINING)
    assert run.history["epsilon"][-1] == spent_by_hand([*range(12)], 3)
    for party in ("party_0", "party_1", "party_2"):  # they report before the last evaluation
        told = run.others_history.filter(organisation=party)["epsilon"]
        assert told.to_list()[-1] == run.history["epsilon"][-1]
    assert run.history["epsilon"].is_sorted()


@pytest.mark.parametrize("simulated", [False, True])
def test_what_a_crash_repeats_is_spent_twice_but_in_a_simulation(
    tmp_path: Path, simulated: bool
) -> None:
    training = replace(TRAINING, secrets="seed") if simulated else TRAINING
    method = replace(PRIVATE, uplink=replace(PRIVATE.uplink))
    whole = bounded(method).train(method, training)
    bounded(method).train(method, training, out=tmp_path / "run", stop_before=7)
    start = without_newest_checkpoint(tmp_path / "run")
    rest = bounded(method).train(method, training, out=tmp_path / "run", resume=True)
    same = [
        torch.equal(one, other)
        for one, other in zip(
            whole.models["party_0"]["bottom"].parameters(),
            rest.models["party_0"]["bottom"].parameters(),
            strict=True,
        )
    ]
    assert all(same) is simulated
    assert start < 7
    rounds = [*range(7), *range(start, 12)]
    if simulated:
        rounds = [*range(12)]
    repeated = 0 if simulated else sum(start < at <= 7 for at in (4, 8, 12))
    assert rest.history["epsilon"][-1] == spent_by_hand(rounds, 3 + repeated)


def test_what_left_in_vain_may_have_been_in_a_sum_of_the_fewest() -> None:
    layout, uplink = bounded(PRIVATE).agreement(PRIVATE, TRAINING).layout, PRIVATE.uplink
    told = uplink.spending(layout, {Purpose.TRAINING: 3}, Wait(), {Purpose.TRAINING: 2})
    uses = RowUses(1)
    for terms in (3, 3, 3, 2, 2):
        uses.add(BinomialSum(4, 0.1, terms=terms, components=4), [0])
    assert told["uses_of_a_row"] == 5
    assert told["epsilon"] == uses.epsilon(1e-5).value
    assert told["epsilon"] > uplink.spending(layout, {Purpose.TRAINING: 5}, Wait())["epsilon"]


def test_a_budget_ends_training_before_it_is_exceeded() -> None:
    epsilons = bounded(PRIVATE).train(PRIVATE, TRAINING).history["epsilon"].to_list()
    afforded = Budget((epsilons[1] + epsilons[2]) / 2, 1e-5)
    limited = replace(PRIVATE, uplink=replace(PRIVATE.uplink, budget=afforded))
    run = bounded(limited).train(limited, TRAINING)
    assert run.summary["rounds"] == 8
    assert run.history["epsilon"].to_list() == epsilons[:2]
    assert run.summary["completed"]
    none = replace(PRIVATE, uplink=replace(PRIVATE.uplink, budget=Budget(0.01, 1e-5)))
    with pytest.raises(ConfigurationError, match="cannot afford one round"):
        bounded(none).train(none, TRAINING)


def test_what_a_crash_repeated_counts_towards_the_budget(tmp_path: Path) -> None:
    epsilon = spent_by_hand([*range(12)], 3)
    limited = replace(PRIVATE, uplink=replace(PRIVATE.uplink, budget=Budget(epsilon * 1.001, 1e-5)))
    bounded(limited).train(limited, TRAINING, out=tmp_path / "run", stop_before=7)
    without_newest_checkpoint(tmp_path / "run")
    with pytest.raises(BudgetExhausted, match="of what is repeated after a crash too"):
        bounded(limited).train(limited, TRAINING, out=tmp_path / "run", resume=True)
    larger = replace(PRIVATE, uplink=replace(PRIVATE.uplink, budget=Budget(2 * epsilon, 1e-5)))
    run = bounded(larger).train(larger, TRAINING, out=tmp_path / "run", resume=True)
    assert (run.summary["rounds"], run.summary["completed"]) == (12, True)
    assert epsilon < run.summary["privacy_loss"]["epsilon"] <= 2 * epsilon


def test_a_run_goes_on_with_the_delta_alone_that_its_epsilons_are_of(tmp_path: Path) -> None:
    def train(delta: float | None, **more: Any) -> Any:
        budget = None if delta is None else Budget(1000.0, delta)
        method = replace(PRIVATE, uplink=replace(PRIVATE.uplink, budget=budget))
        return bounded(method).train(method, TRAINING, out=tmp_path / "run", **more)

    train(1e-5, stop_before=5)
    for delta in (1e-10, 1e-2):
        with pytest.raises(CheckpointError, match="the delta of a budget was different; go on"):
            train(delta, resume=True)
    run = train(None, resume=True)  # epsilons are told with it where no budget is, too
    assert run.summary["privacy_loss"]["delta"] == 1e-5
    assert run.history["epsilon"][-1] == run.summary["privacy_loss"]["epsilon"]


def test_what_a_crash_lost_is_beyond_a_smaller_budget_too(tmp_path: Path) -> None:
    bounded(PRIVATE).train(PRIVATE, TRAINING, out=tmp_path / "run", stop_before=5)
    assert without_newest_checkpoint(tmp_path / "run") == 4  # an epoch, which used rows once
    once = spent_by_hand([*range(4)], 0)
    smaller = replace(PRIVATE, uplink=replace(PRIVATE.uplink, budget=Budget(once * 1.01, 1e-5)))
    with pytest.raises(BudgetExhausted, match="this run may have released, and the budget is"):
        bounded(smaller).train(smaller, TRAINING, out=tmp_path / "run", resume=True)


@pytest.mark.parametrize("driver", [Simulate(), Processes()], ids=lambda driver: driver.label)
def test_a_run_that_is_over_sends_nothing_when_it_goes_on(tmp_path: Path, driver: Any) -> None:
    out = tmp_path / "run"
    whole = bounded(PRIVATE).train(PRIVATE, TRAINING, driver, out=out)

    def files() -> dict[Path, bytes]:
        tables = [out / name for name in ("ledger.csv", "history.csv", "others_history.csv")]
        return {path: path.read_bytes() for path in [*tables, *(out / "departures").iterdir()]}

    def told(run: Any) -> dict[str, Any]:
        return {name: it for name, it in run.summary.items() if not name.startswith("seconds_")}

    before = files()
    for _ in range(2):
        again = bounded(PRIVATE).train(PRIVATE, TRAINING, driver, out=out, resume=True)
        assert list(again.ledger) == list(whole.ledger)
        assert files() == before
        assert told(again) == told(whole)


def test_what_left_after_a_run_was_over_is_counted_when_it_goes_on(tmp_path: Path) -> None:
    """As where its last checkpoint is put back after it went on with a larger budget."""
    epsilons = bounded(PRIVATE).train(PRIVATE, TRAINING).history["epsilon"].to_list()
    afforded = Budget((epsilons[1] + epsilons[2]) / 2, 1e-5)
    limited = replace(PRIVATE, uplink=replace(PRIVATE.uplink, budget=afforded))
    out, backup = tmp_path / "run", tmp_path / "backup"
    run = bounded(limited).train(limited, TRAINING, out=out)
    assert (run.summary["rounds"], run.summary["completed"]) == (8, True)
    shutil.copytree(out / "checkpoint", backup)
    bounded(PRIVATE).train(PRIVATE, TRAINING, out=out, resume=True)
    shutil.rmtree(out / "checkpoint")
    shutil.copytree(backup, out / "checkpoint")
    with pytest.raises(BudgetExhausted, match="by what this run may have released"):
        bounded(limited).train(limited, TRAINING, out=out, resume=True)


@pytest.mark.parametrize("driver", [Simulate(), Processes()], ids=lambda driver: driver.label)
def test_no_epsilon_is_told_without_what_left_after_a_backup(tmp_path: Path, driver: Any) -> None:
    out, backup = tmp_path / "run", tmp_path / "backup"
    bounded(PRIVATE).train(PRIVATE, TRAINING, driver, out=out, stop_before=7)
    shutil.copytree(out, backup)
    bounded(PRIVATE).train(PRIVATE, TRAINING, driver, out=out, resume=True)
    for folder in ("checkpoint", "journal"):
        shutil.rmtree(out / folder)
        shutil.copytree(backup / folder, out / folder)
    with pytest.raises(CheckpointError, match=r"or a message left: it has \d+ records of \d+; "):
        bounded(PRIVATE).train(PRIVATE, TRAINING, driver, out=out, resume=True)


# The two halves, by themselves


class Half:
    """A role that plays a course with a half of an uplink, and keeps what it committed and sent."""

    def __init__(self, name: str, peers: Any, half: Any, course: Any, notes: Any) -> None:
        self.name, self.peers, self.half = name, peers, half
        self.course, self.notes = course, notes
        self.round = 0
        self.acts: list[Any] = []
        self.got: Any = None

    async def run(self) -> None:
        await _Noted(self.half.prepare(HeldOut("all", [ROWS])), [], self.notes)
        await Boundary(0)
        self.got = await _Noted(self.course(self.half), self.acts)
        self.round = 1

    def state_dict(self) -> dict[str, Any]:
        return {}

    def said(self) -> list[str]:
        """Return what it did, in order: records by what is in them, messages by their kind."""
        told = [
            " ".join(sorted(act.record)) if isinstance(act, Commit) else act.kind
            for act in self.acts
        ]
        return [what for what, _ in groupby(told)]  # the label holder tells every party

    def spent(self) -> list[list[int]]:
        records = [act.record for act in self.acts if isinstance(act, Commit)]
        return [record["spent"] for record in records if "spent" in record]


class _Noted:
    def __init__(self, course: Any, acts: list[Any], notes: Any = None) -> None:
        self.course, self.acts, self.notes = course, acts, notes

    def __await__(self) -> Any:
        course, answer = self.course.__await__(), None
        while True:
            try:
                effect = course.send(answer)
            except StopIteration as end:
                return end.value
            if isinstance(effect, Commit | Send):
                self.acts.append(effect)
            asked = isinstance(effect, Recall) and self.notes
            answer = self.notes if asked else (yield effect)


ROWS = np.arange(9)
EVALUATION = Moment(1, Purpose.EVALUATION)


def halves(
    uplink: Masked,
    *moments: Moment,
    stragglers: Any = None,
    late: float = 0.0,
    slow: float = 0.0,
    notes: Any = None,
) -> dict[str, Half]:
    """Let the halves play some moments; return the roles by name.

    All that ``party_1`` sends takes so many seconds more, or its first embedding alone; ``party_0``
    remembers ``notes``.
    """
    method = cn.Method("halves", Sum(), uplink, stragglers=stragglers or Wait())
    federation = bounded(method)
    layout = federation.agreement(method, cn.Training(epochs=1, batch_size=9)).layout

    async def uploading(party: Any, half: Any) -> list[torch.Tensor]:
        sent = []
        if party.name == "party_1":
            await Work("dawdling", lambda: None, 0)
        for moment in moments:
            await half.upload(Learner(party.bottom), ROWS, moment)
            sent.append(half.delivered())
        return sent

    async def collecting(half: Any) -> list[Any]:
        return [await half.collect(ROWS, moment) for moment in moments]

    roles = [
        Half(
            party.name,
            ("holder",),
            uplink.uploader(layout, party),
            partial(uploading, party),
            notes if party.name == "party_0" else None,
        )
        for party in federation.parties
    ]
    collector = uplink.collector(layout, Sum(), method.stragglers)
    roles.append(Half("holder", layout.parties, collector, collecting, None))
    network = Network(pairs={("party_1", "holder"): Channel(latency=late)})
    costs = Modelled({"dawdling": slow}, otherwise=0.001)
    Simulate(network, costs).run(roles, Assignment(seed=5))
    return {role.name: role for role in roles}


def test_what_is_spent_is_committed_before_it_leaves() -> None:
    roles = halves(PRIVATE.uplink, Moment(0))
    sending = ["uploaded", "masked_embedding", "revealed spent"]
    assert roles["party_0"].said() == [*sending, "answer"]
    assert roles["holder"].said() == ["spent", "request"]
    for name in ("party_0", "holder"):
        assert roles[name].spent() == [[0, 0, 0, 3]]
    roles = halves(PRIVATE.uplink, Moment(0), stragglers=Deadline(0.1), slow=5.0)
    assert roles["party_0"].said() == [*sending, "confirmation", "answer"]
    assert roles["party_1"].said() == sending
    assert roles["holder"].said() == ["spent", "request", "confirmations"]


def test_a_sum_of_nobody_is_refused_by_who_told_of_it(monkeypatch: Any) -> None:
    honest = SumHolder.requests

    def requests(holder: SumHolder) -> dict[str, bytes]:
        holder._uploads = {}
        return honest(holder)

    monkeypatch.setattr(SumHolder, "requests", requests)
    sentence = "^what 'holder' sent in round 0 is refused: 'holder' names nobody as contributing"
    with pytest.raises(RemoteProtocolError, match=sentence):
        halves(PRIVATE.uplink, Moment(0))


@pytest.mark.parametrize("how", [{"late": 5.0}, {"slow": 5.0}], ids=["before", "after its offer"])
def test_survivors_stand_for_all_in_estimate_and_account(how: Any) -> None:
    """And the next evaluation is of everybody."""
    roles = halves(PRIVATE.uplink, Moment(0), EVALUATION, stragglers=Deadline(0.1), **how)
    trained, evaluated = roles["holder"].got
    assert trained.present == ("party_0", "party_2")
    alone = [roles[name].got[0] for name in trained.present]
    assert torch.allclose(trained.fuse(None), torch.stack(alone).sum(0), atol=1e-4)
    assert evaluated.present == ("party_0", "party_1", "party_2")
    for role in roles.values():
        assert role.spent() == [[0, 0, 0, 2], [1, int(Purpose.EVALUATION), 0, 3]]


def test_an_upload_of_which_nothing_more_is_known_counts_with_the_threshold() -> None:
    unsettled = Notes(1, ({"uploaded": [0, 0, 0]},))
    half = halves(PRIVATE.uplink, Moment(0), notes=unsettled)["party_0"].half
    fewest, now = (BinomialSum(4, 0.1, terms=terms, components=4) for terms in (2, 3))
    assert half.report()["epsilon"] == Spending({fewest: 1, now: 1}).epsilon(1e-5).value


def test_no_coins_are_drawn_twice() -> None:
    """Not by another piece or round: the sums of the same embeddings are others."""
    pieces = [replace(EVALUATION, round=round, part=part) for round in (1, 2) for part in (0, 1)]
    sums = [collected.fuse(None) for collected in halves(NOISY, *pieces)["holder"].got]
    exact = [collected.fuse(None) for collected in halves(EXACT, *pieces)["holder"].got]
    for place, one in enumerate(sums):
        assert torch.equal(exact[0], exact[place])
        assert not any(torch.equal(one, other) for other in sums[:place])


def test_what_was_done_in_a_run_is_in_its_journals(tmp_path: Path) -> None:
    bounded(PRIVATE).train(PRIVATE, TRAINING, out=tmp_path / "run")
    for name in ("party_0", "holder"):
        journal = Journal(tmp_path / "run" / "journal", name)
        records = journal.notes().records
        journal.close()
        spent = [tuple(record["spent"]) for record in records if "spent" in record]
        assert len(spent) == len(set(spent)) == 12 + 3 * 3 + 3  # pieces of 15 rows, by 7
        if name == "party_0":
            uploaded = [record["uploaded"] for record in records if "uploaded" in record]
            assert [[*entry[:3]] for entry in spent] == uploaded
            assert all(len(r["revealed"]) == 3 for r in records if "revealed" in r)
