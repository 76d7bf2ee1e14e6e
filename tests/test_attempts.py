"""Work that a message may make superfluous, and messages told apart by a part of the round."""

from __future__ import annotations

import pytest

from colonnade.channels import Channel, Network
from colonnade.checkpoints import CheckpointStore
from colonnade.costs import Measured, Modelled
from colonnade.drivers import Assignment, Processes, Replay, Simulate
from colonnade.effects import Attempt, Boundary, Close, Expect, Ready, Receive, Send, Work
from colonnade.errors import LocalProtocolError
from colonnade.wire import Message, Purpose, decode_frame, encode_header

ENOUGH = "enough"


class Role:
    def __init__(self, name, peers, course):
        self.name, self.peers, self.course = name, peers, course
        self.round, self.seen = 0, []

    async def run(self):
        await self.course(self)

    def state_dict(self):
        return {"round": self.round, "seen": list(self.seen)}

    def load_state_dict(self, state):
        self.round, self.seen = state["round"], list(state["seen"])


def enough(round):
    return Expect(ENOUGH, round, ("holder",))


def attempting(rounds, worked):
    """A party that works in each round unless the holder says that it need not."""

    async def course(role):
        while role.round < rounds:
            await Boundary(role.round)
            await Close(role.round)
            work = Work("coded", lambda: worked.append(role.round) or "done", role.round)
            role.seen.append(await Attempt(work, enough(role.round)))
            await Send("holder", "went_on", role.round, b"")
            role.round += 1
        await Boundary(role.round)

    return course


def telling(rounds, told):
    async def course(role):
        while role.round < rounds:
            await Boundary(role.round)
            if role.round in told:
                await Send("party", ENOUGH, role.round, b"")
            await Receive(Expect("went_on", role.round, ("party",)))
            role.round += 1
        await Boundary(role.round)

    return course


def both(rounds, told, worked):
    return [
        Role("party", ("holder",), attempting(rounds, worked)),
        Role("holder", ("party",), telling(rounds, told)),
    ]


def simulator(latency, work):
    return Simulate(Network(Channel(latency=latency)), Modelled({"coded": work}, otherwise=0.0))


@pytest.mark.parametrize(
    ("latency", "result", "seconds"),
    [(0.0, None, 0.0), (0.3, None, 0.3), (0.5, None, 0.5), (0.6, "done", 0.5)],
)
def test_work_ends_when_the_message_comes(latency, result, seconds):
    """At the last moment it ends too: at equal times what arrives comes first."""
    worked = []
    record = simulator(latency, 0.5).run(roles := both(1, {0}, worked), Assignment(seed=0))
    assert roles[0].seen == [result]
    assert worked == ([0] if result else []), "what was called off was computed all the same"
    assert record.seconds_virtual == pytest.approx(seconds + latency)  # and "went_on" travels
    spent = [a.nanoseconds for key, a in record.activities.items() if key[-1] == "coded"]
    assert spent == [round(seconds * 1e9)]


def test_without_the_message_it_is_work_as_any_other():
    roles = both(3, set(), worked := [])
    record = simulator(0.1, 0.5).run(roles, Assignment(seed=0))
    assert (roles[0].seen, worked) == (["done"] * 3, [0, 1, 2])
    assert record.seconds_virtual == pytest.approx(3 * 0.5 + 0.1)


@pytest.mark.parametrize("driver", [simulator(0.2, 0.5), Simulate(costs=Measured()), Processes()])
def test_a_replay_takes_the_same_course(driver):
    roles = both(4, {1, 3}, [])
    record = driver.run(roles, Assignment(seed=0))
    again = both(4, {1, 3}, worked := [])
    replayed = Replay(record.trace).run(again, Assignment(seed=0))
    assert again[0].seen == roles[0].seen
    assert worked == [round for round, seen in enumerate(again[0].seen) if seen]
    assert replayed.ledger.without_time() == record.ledger.without_time()


def test_a_run_that_was_stopped_takes_the_same_course(tmp_path):
    whole, driver = both(5, {1, 3}, []), simulator(0.2, 0.5)
    driver.run(whole, Assignment(seed=0))
    store = CheckpointStore(tmp_path, {"run": "digest"})
    driver.run(both(5, {1, 3}, []), Assignment(seed=0, store=store, stop_before=2))
    rest = both(5, {1, 3}, [])
    driver.run(rest, Assignment(seed=0, store=store, resume=store.latest()))
    assert rest[0].seen == whole[0].seen == ["done", None, "done", None, "done"]


def test_it_waits_for_no_quorum_and_no_time():
    async def course(role):
        await Attempt(Work("coded", bool, 0), enough(0)._replace(within=1.0))

    roles = [Role("party", ("holder",), course), Role("holder", ("party",), telling(0, {}))]
    with pytest.raises(LocalProtocolError, match="in time"):
        simulator(0.1, 0.5).run(roles, Assignment(seed=0))


# Parts


def test_part_zero_takes_no_byte_and_others_are_read_back():
    plain = encode_header("answer", Purpose.EVALUATION, 3, 12)
    third = encode_header("answer", Purpose.EVALUATION, 3, 12, 2)
    assert plain == encode_header("answer", Purpose.EVALUATION, 3, 12, 0)
    assert len(third) == len(plain) + 1
    for header, part in ((plain, 0), (third, 2)):
        message = decode_frame(header + b"body", "bank", "holder")
        told = Message("bank", "holder", "answer", Purpose.EVALUATION, 3, 12, b"body", part)
        assert message == told


@pytest.mark.parametrize("driver", [Simulate(), Processes()], ids=lambda driver: driver.label)
def test_pieces_of_a_round_are_told_apart(driver, tmp_path):
    async def sends(role):
        await Boundary(0)
        for part in (2, 0, 1):
            await Send("holder", "answer", 0, bytes([part]), part=part)
        role.round = 1
        await Boundary(1)

    async def takes(role):
        await Boundary(0)
        for part in range(3):
            expect = Expect("answer", 0, ("party",), part=part)
            role.seen.append((await Receive(expect)).only.body[0])
            assert not await Ready(expect)
        role.round = 1
        await Boundary(1)

    roles = [Role("party", ("holder",), sends), Role("holder", ("party",), takes)]
    driver.run(roles, Assignment(seed=0))
    assert roles[1].seen == [0, 1, 2]


def test_a_checkpoint_keeps_the_part_of_what_is_under_way(tmp_path):
    async def sends(role):
        if role.round == 0:
            await Boundary(0)
            await Send("holder", "early", 1, b"x", part=3)
            role.round = 1
        await Boundary(1)

    async def takes(role):
        if role.round == 0:
            await Boundary(0)
            role.round = 1
        await Boundary(1)
        role.seen.append((await Receive(Expect("early", 1, ("party",), part=3))).only.body)

    def roles():
        return [Role("party", ("holder",), sends), Role("holder", ("party",), takes)]

    store = CheckpointStore(tmp_path, {"run": "digest"})
    Simulate().run(roles(), Assignment(seed=0, store=store, stop_before=1))
    rest = roles()
    Simulate().run(rest, Assignment(seed=0, resume=store.latest()))
    assert rest[1].seen == [b"x"]
