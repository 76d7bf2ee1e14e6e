"""Networks and organisations that are slow: gateways, jitter, presets, delays; exact times."""

from __future__ import annotations

import json
import math
import os
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from colonnade import Processes, Simulate
from colonnade.channels import PRESETS, Channel, Gateway, Network
from colonnade.config import load_config, parse_config
from colonnade.costs import Delayed, Measured, Modelled
from colonnade.delays import Constant, Delay, Exponential, FromTrace
from colonnade.drivers import Assignment
from colonnade.effects import KINDS_OF_WAITING, Expect, Purpose, Receive, Report, Send
from colonnade.errors import CheckpointError, ConfigurationError, DataError
from colonnade.method import Method
from colonnade.methods import celu, fedbcd, svfl
from colonnade.models import Sum
from colonnade.planning import plan
from colonnade.stragglers import Deadline
from colonnade.streams import StreamKey
from colonnade.testing.methods import small_federation
from colonnade.training import Training, Watcher
from colonnade.wire import carried_bytes, encode_header

pytestmark = pytest.mark.usefixtures("no_pictures")

TRAINING = Training(epochs=2, batch_size=16, evaluation_rows=7, seed=5)
FREE = Modelled(otherwise=0.0)


class Sender:
    """Sends bodies, one after another, at once."""

    def __init__(self, name: str, sizes: list[int], receivers: list[str]) -> None:
        self.name, self.round = name, 0
        self.sizes, self.peers = sizes, receivers

    async def run(self) -> None:
        for number, size in enumerate(self.sizes):
            await Send(self.peers[number % len(self.peers)], "body", number, bytes(size))

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class Receiver(Sender):
    """Reports when it has each message."""

    def __init__(self, name: str, expected: list[tuple[str, int]]) -> None:
        super().__init__(name, [], [sender for sender, _ in expected])
        self.expected = expected

    async def run(self) -> None:
        for sender, number in self.expected:
            await Receive(Expect("body", number, (sender,)))
            await Report({"round": number, "from": sender})


def arrivals(network: Network, senders: list[Sender], receivers: list[Receiver]) -> list[float]:
    record = Simulate(network, FREE).run([*senders, *receivers], Assignment())
    return [row["seconds"] for row in record.history]


def framed(size: int, number: int) -> int:
    return carried_bytes(encode_header("body", Purpose.TRAINING, number, number), size)


def test_all_that_comes_in_shares_a_gateway() -> None:
    """Messages of two parties are there together, and pass one after another."""
    network = Network(Channel(latency=0.5), gateways={"hub": Gateway(into=8e3)})
    parties = [Sender("bank", [1000], ["hub"]), Sender("shop", [3000], ["hub"])]
    found = arrivals(network, parties, [Receiver("hub", [("bank", 0), ("shop", 0)])])
    first = 0.5 + framed(1000, 0) * 8 / 8e3
    assert found == pytest.approx([first, first + framed(3000, 0) * 8 / 8e3])


def test_all_that_leaves_shares_a_gateway_before_its_channel() -> None:
    slow = Channel(bandwidth=4e3, latency=0.25)
    network = Network(slow, gateways={"hub": Gateway(out=8e3)})
    hub = Sender("hub", [1000, 1000], ["bank", "shop"])
    receivers = [Receiver("bank", [("hub", 0)]), Receiver("shop", [("hub", 1)])]
    found = arrivals(network, [hub], receivers)
    one = framed(1000, 0)
    first = one * 8 / 8e3 + one * 8 / 4e3 + 0.25
    assert sorted(found) == pytest.approx([first, first + one * 8 / 8e3], rel=1e-4)


def test_jitter_is_within_its_bounds_and_nothing_overtakes() -> None:
    network = Network(Channel(latency=1.0, jitter=0.5))
    sizes = [10] * 200
    found = arrivals(
        network,
        [Sender("bank", sizes, ["hub"])],
        [Receiver("hub", [("bank", i) for i in range(200)])],
    )
    assert all(one <= other for one, other in pairwise(found))
    assert 1.0 <= min(found) < max(found) <= 1.5
    assert max(found) > 1.49  # the latest of two hundred, which all sent at 0
    alone = [
        arrivals(
            network, [Sender(f"party {i}", [10], ["hub"])], [Receiver("hub", [(f"party {i}", 0)])]
        )
        for i in range(200)
    ]
    assert abs(np.mean(alone) - 1.25) < 0.03


@pytest.mark.parametrize("method", [svfl(), celu(2, 2, 0.0)], ids=lambda method: method.name)
@pytest.mark.parametrize(
    ("stop", "untimed"), [(1, ()), (3, ()), (6, ()), (3, [Purpose.EVALUATION])]
)
def test_a_run_through_gateways_goes_on_to_the_same_times(
    method: Any, stop: int, untimed: Any, tmp_path: Path
) -> None:
    channel = Channel(bandwidth=1e6, latency=0.02, jitter=0.03)
    network = Network(channel, gateways={"holder": Gateway(2e5, 3e5), "party_1": Gateway(1e5, 1e5)})
    costs = Delayed(Modelled(otherwise=0.002), {"party_0": Exponential(0.05)})
    driver = Simulate(network, costs, untimed=untimed)

    def train(**more: Any) -> Any:
        federation = small_federation(method)
        return federation.train(method, TRAINING, driver, report=False, **more)

    whole = train()
    train(out=tmp_path / "run", stop_before=stop)
    rest = train(out=tmp_path / "run", resume=True)
    assert whole.history.rows() == rest.history.rows()
    assert whole.summary["seconds_virtual"] == rest.summary["seconds_virtual"]
    assert list(whole.ledger) == list(rest.ledger)


class Killed(Exception):
    """Ends a run in the middle of a round."""


WHO_IS_THERE = replace(celu(2, 3, 0.0, fusion=Sum()), stragglers=Deadline(0.0))


@pytest.mark.parametrize("method", [celu(2, 2, 0.0), WHO_IS_THERE], ids=["celu", "who is there"])
@pytest.mark.parametrize("end", ["stopped", "killed"])
@pytest.mark.parametrize("round", [3, 4, 5, 7])
def test_nothing_passes_a_gateway_twice(method: Any, end: str, round: int, tmp_path: Path) -> None:
    """Those who are ahead send through it what others have not come to yet, or need no more."""
    network = Network(Channel(latency=0.001), gateways={"holder": Gateway(1e6, 3e4)})
    slow = {name: Exponential(0.1) for name in ("party_0", "party_1", "party_2")}
    driver = Simulate(network, Delayed(Modelled({"update": 0.03}, otherwise=0.002), slow))
    training = replace(TRAINING, checkpoint_every=1)

    def train(**more: Any) -> Any:
        return small_federation(method).train(method, training, driver, report=False, **more)

    def kill(name: str, entered: int, _: int) -> None:
        if name == "holder" and entered > round:
            raise Killed

    whole = train()
    if end == "stopped":
        train(out=tmp_path / "run", stop_before=round)
    else:
        with pytest.raises(Killed):
            train(out=tmp_path / "run", watcher=Watcher(on_round=kill))
    rest = train(out=tmp_path / "run", resume=True)
    assert whole.history.rows() == rest.history.rows()
    assert whole.summary["seconds_virtual"] == rest.summary["seconds_virtual"]
    discarded = [e.discarded for e in whole.ledger]
    assert sum(discarded) == sum(e.discarded for e in rest.ledger if not e.lost)
    assert any(discarded) == method.stragglers.drops


def test_delays_lengthen_training_alone_and_a_plan_knows_them() -> None:
    method = svfl()
    plain = Modelled(otherwise=0.001)
    slow = Delayed(plain, {"party_1": Constant(2.0)})

    def seconds(costs: Any) -> float:
        federation = small_federation(method)
        run = federation.train(method, TRAINING, Simulate(costs=costs), report=False)
        assert run.summary["clock"]["compute"] == costs.label
        planned = plan(small_federation(method), method, TRAINING, Simulate(costs=costs))
        assert planned.seconds == pytest.approx(run.summary["seconds_virtual"])
        return float(run.summary["seconds_virtual"])

    rounds = 8
    # What others do meanwhile is hidden behind the delay.
    assert seconds(slow) == pytest.approx(seconds(plain) + rounds * 2.0, abs=0.01)


@pytest.mark.parametrize("resumed", [False, True], ids=["whole", "resumed"])
@pytest.mark.parametrize("columns", [True, False], ids=["columns", "labels alone"])
@pytest.mark.parametrize("name", ["party_1", "holder"])
@pytest.mark.parametrize(
    "method",
    [svfl(), fedbcd(3), fedbcd(3, labels="shared"), celu(3, 3, 0.0), celu(3, 3, overlap=False)],
    ids=["svfl", "fedbcd", "relay", "celu", "celu without overlap"],
)
def test_everybody_loses_a_delay_once_a_round(
    method: Any, name: str, columns: bool, resumed: bool, tmp_path: Path
) -> None:
    """Whatever somebody does first in a round, and however much of it."""
    costs = Delayed(Modelled(otherwise=0.001), {name: Constant(1.0)})
    driver = Simulate(Network(Channel(latency=0.05)), costs)

    def train(**more: Any) -> Any:
        federation = small_federation(method, holder_has_features=columns)
        return federation.train(method, TRAINING, driver, report=False, **more)

    if resumed:
        train(out=tmp_path / "run", stop_before=3)
        run = train(out=tmp_path / "run", resume=True)
    else:
        run = train()
    lost = sum(
        activity.nanoseconds - 1_000_000 * activity.count
        for (role, _, kind), activity in run.record.activities.items()
        if role == name and kind not in KINDS_OF_WAITING
    )
    assert lost == run.summary["rounds"] * 10**9
    if method.name != "celu" and not resumed:  # its plan is of steps that take no time
        federation = small_federation(method, holder_has_features=columns)
        planned = plan(federation, method, TRAINING, driver)
        assert planned.seconds == pytest.approx(run.summary["seconds_virtual"], rel=0.01)


def test_a_trace_says_seconds_by_round_and_organisation(tmp_path: Path) -> None:
    file = tmp_path / "delays.csv"
    file.write_text("bank,shop\n0.5,0\n1,2e-1\n", encoding="utf-8")
    trace = FromTrace(file)
    found = [trace.seconds(StreamKey(0, "shop", "delay", round)) for round in range(4)]
    assert found == [0, 0.2, 0, 0.2]
    with pytest.raises(ConfigurationError, match="has no column 'clinic'; it has bank, shop"):
        trace.seconds(StreamKey(0, "clinic", "delay", 0))
    assert trace == FromTrace(file)
    assert hash(trace) == hash(FromTrace(file))
    file.write_text("bank,shop\n0.5,0\n1,3e-1\n", encoding="utf-8")
    assert trace != FromTrace(file)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "bank,shop\n1,2\n3\n",
            r"row 1 \(line 3\): 1 cell, but 2 organisations are named",
        ),
        ("bank,shop\n\n1,2\n1,2,3\n", r"row 1 \(line 4\): 3 cells, but 2"),
        ("bank,shop\n1,x\n", r"row 0 \(line 2\), column 'shop': 'x' is no number of seconds"),
        ("bank,shop\n-1,0\n", r"line 2\), column 'bank': '-1' is no number of seconds"),
        ("bank,shop\n1,inf\n", r"line 2\), column 'shop': 'inf' is no number"),
        ("bank\n1e300\n", "'1e300' is no number of seconds up to 1e6"),
        ("bank\n1_0\n", "'1_0' is no number"),
        ("bank\n" + "x" * 1000 + "\n", "'x{37}...' is no number"),
        ('bank,shop\n"1\n",2\nx,4\n', r"row 1 \(line 4\), column 'bank'"),
        ("bank,bank\n1,1\n", "names an organisation twice"),
        ("bank,shop\n", "has no row of seconds below a line of names"),
        ("", "has no row of seconds"),
    ],
)
def test_a_trace_that_is_none_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "delays.csv"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        FromTrace(str(file))


def test_a_trace_is_a_file() -> None:
    with pytest.raises(DataError, match=r"none\.csv cannot be read: No such file"):
        FromTrace("none.csv")
    for path in ("/dev/zero", "/"):
        with pytest.raises(DataError, match="is no regular file"):
            FromTrace(path)
    for wrong in (5, None, "a\0b"):
        with pytest.raises(ConfigurationError, match="has the path of a file, not"):
            FromTrace(wrong)  # type: ignore[arg-type]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_trace_that_nobody_writes_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="is no regular file"):
        FromTrace(str(tmp_path / "pipe"))


def test_a_trace_as_office_programs_write_it(tmp_path: Path) -> None:
    file = tmp_path / "delays.csv"
    file.write_bytes(b"\xef\xbb\xbfbank, shop\r\n1, 2.5\r\n\r\n3,4e-1\r\n\r\n")
    trace = FromTrace(str(file))
    found = [trace.seconds(StreamKey(0, "bank", "delay", round)) for round in range(3)]
    assert found == [1, 3, 1]
    assert trace.seconds(StreamKey(0, "shop", "delay", 0)) == 2.5
    with pytest.raises(ConfigurationError, match="has no column 'clinic'; it has bank, shop"):
        Delayed(FREE, {"clinic": trace})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Channel(bandwidth=0), "bandwidth must be 1 bit/s or more, not 0"),
        (lambda: Channel(bandwidth=1e-5), "bandwidth must be 1 bit/s or more, not 1e-05"),
        (lambda: Channel(math.nan), "bandwidth must be 1 bit/s or more, not nan"),
        (lambda: Channel("3"), "bandwidth must be 1 bit/s or more, not '3'"),
        (lambda: Channel(None), "bandwidth must be 1 bit/s or more, not None"),
        (lambda: Channel(True), "bandwidth must be 1 bit/s or more, not True"),
        (lambda: Channel(latency="1"), "latency must be 0 to 1e6 s, not '1'"),
        (lambda: Channel(latency=9999999999), "latency must be 0 to 1e6 s, not 9999999999"),
        (lambda: Channel(jitter=-1), "jitter must be 0 to 1e6 s, not -1"),
        (lambda: Channel(jitter=math.inf), "jitter must be 0 to 1e6 s"),
        (lambda: Channel(jitter=1e300), "jitter must be 0 to 1e6 s, not 1e[+]300"),
        (lambda: Gateway(out=0), "a gateway's out must be 1 bit/s or more, not 0"),
        (lambda: Gateway(into=-5), "a gateway's into must be 1 bit/s or more, not -5"),
        (lambda: Gateway(1e-300), "a gateway's out must be 1 bit/s or more"),
        (lambda: Network(queue=math.nan), "queue must be a whole number of messages, 1 or"),
        (
            lambda: Network(queue=1.5),
            "queue must be a whole number of messages, 1 or more, not 1",
        ),
        (lambda: Network(queue=True), "queue must be a whole number"),
        (
            lambda: Network.preset("moon", "hub"),
            "there is no network 'moon'; there are lan",
        ),
        (lambda: Constant(-1), "a constant delay must be 0 to 1e6 s"),
        (lambda: Constant(1e300), "a constant delay must be 0 to 1e6 s"),
        (lambda: Exponential(math.nan), "the mean of delays must be 0 to 1e6 s"),
        (lambda: Exponential("1"), "the mean of delays must be 0 to 1e6 s, not '1'"),
        (lambda: Delayed(FREE, {"p": 0.5}), "the delay of 'p' is Constant.* which 0.5 has not"),
        (lambda: Delayed(FREE, {"p": Constant}), "the delay of 'p' is Constant"),
        (
            lambda: Delayed(FREE, {}, seed=2**63),
            r"the seed of delays must be a whole number from -2\^63",
        ),
        (
            lambda: Delayed(FREE, {}, seed="1"),
            r"the seed of delays must be a whole number from -2\^63",
        ),
        (lambda: Delayed(FREE, {"p": Broken()}), "the delay of 'p' in round 0 must be 0 s or more"),
        (lambda: Modelled(otherwise=1e305), "cost of other work must be 0 to 1e6 s"),
        (lambda: Modelled(otherwise="1"), "cost of other work must be 0 to 1e6 s, not '1'"),
        (
            lambda: Modelled({"local_steps": 0.1}, otherwise=0.1),
            r"no work 'local_steps', but 'local_step'; .*: call it otherwise if 'local_steps' is",
        ),
        (lambda: Measured({"p": 1e300}), "slowdown of 'p' must be 0 to 1e6, not 1e[+]300"),
        (lambda: Measured({"p": "2"}), "slowdown of 'p' must be 0 to 1e6, not '2'"),
    ],
)
def test_what_no_network_has_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make()


class Broken(Delay):
    """Loses no number of seconds."""

    def seconds(self, key: StreamKey) -> float:
        return math.nan


FAST = Channel(1e9)


@pytest.mark.parametrize(
    ("network", "costs", "message"),
    [
        (Network(senders={"nobody": FAST}), FREE, "channels of 'nobody'"),
        (Network(pairs={("party_0", "nobody"): FAST}), FREE, "channels of 'nobody'"),
        (Network(gateways={"nobody": Gateway(1e9)}), FREE, "a gateway of 'nobody'"),
        (Network.preset("mobile", "nobody"), FREE, "channels of 'nobody'"),
        (Network(), Modelled(otherwise=0.0, slowdown={"nobody": 2}), "a slowdown of 'nobody'"),
        (Network(), Measured({"nobody": 2}), "a slowdown of 'nobody'"),
        (Network(), Delayed(FREE, {"nobody": Constant(1)}), "a delay of 'nobody'"),
        (Network(), Delayed(Measured({"nobody": 2}), {}), "a slowdown of 'nobody'"),
    ],
)
def test_who_is_not_there_is_named_before_the_run(network: Any, costs: Any, message: str) -> None:
    there = "there is no such organisation; there are party_0, party_1, party_2, holder"
    for ask in (small_federation(svfl()).train, partial(plan, small_federation(svfl()))):
        with pytest.raises(ConfigurationError, match=f"{message}: {there}"):
            ask(svfl(), TRAINING, Simulate(network, costs))


def test_no_clock_goes_beyond_what_a_ledger_can_hold() -> None:
    costs = Modelled(otherwise=1e6, slowdown={"party_0": 1e6})
    with pytest.raises(ConfigurationError, match="clock of 'party_0' would pass 292 years"):
        small_federation(svfl()).train(svfl(), TRAINING, Simulate(costs=costs))


def test_a_configuration_names_a_usual_network_and_who_is_slow(tmp_path: Path) -> None:
    (tmp_path / "delays.csv").write_text("party_2\n0.5\n", encoding="utf-8")
    file = tmp_path / "run.yaml"
    file.write_text(
        """
data: {name: mnist5k}
network:
  preset: mobile
  jitter: 5 ms
  down: {bandwidth: 100 Mbit/s}
  gateways: {registry: {into: 300 Mbit/s}}
costs:
  kind: modelled
  otherwise: 1 ms
  delays:
    party_1: {delay: exponential, mean: 0.1}
    party_2: {delay: trace, path: delays.csv}
label_holder: {name: registry}
""",
        encoding="utf-8",
    )
    driver = load_config(file).build_driver()
    assert isinstance(driver, Simulate)
    up = driver.network.channel("party_1", "registry")
    assert up == Channel(10e6, 0.025, 0.005)
    assert driver.network.channel("registry", "party_1") == Channel(100e6, 0.025, 0.005)
    assert driver.network.gateways == {"registry": Gateway(into=300e6)}
    assert isinstance(driver.costs, Delayed)
    assert driver.costs.delays["party_1"] == Exponential(0.1)
    assert driver.costs.delays["party_2"].seconds(StreamKey(0, "party_2", "delay", 9)) == 0.5
    for name in PRESETS:
        data = {"data": {"name": "mnist5k"}, "network": {"preset": name}}
        network = parse_config(data, "f").network.network("registry")
        assert network == Network.preset(name, "registry")
    delays = {"clinic": {"delay": "constant", "each": 1}}
    config = parse_config({"data": {"name": "mnist5k"}, "costs": {"delays": delays}}, "f")
    with pytest.raises(ConfigurationError, match=r"costs\.delays\.clinic: there is no such org"):
        config.build_federation()


@pytest.mark.parametrize("method", [svfl(), celu()], ids=["svfl", "celu"])
def test_parties_do_not_wait_for_the_label_holders_own_step(method: Method) -> None:
    driver = Simulate(costs=Modelled({"update": 10.0}, otherwise=0.001))
    run = small_federation(method).train(method, TRAINING, driver, report=False)
    sent = [entry for entry in run.ledger if entry.kind == "derivative" and entry.round == 0]
    assert len(sent) == 3
    for entry in sent:
        assert entry.nanoseconds is not None
        assert entry.nanoseconds < 1e9


def network_of(text: str) -> Network:
    network = yaml.safe_load(text)
    config = parse_config({"data": {"name": "mnist5k"}, "network": network}, "f")
    written = parse_config(config.as_dict(), "config.yaml")  # as a run's folder has it
    driver = written.build_driver()
    assert driver == config.build_driver()
    assert isinstance(driver, Simulate)
    return driver.network


def test_what_is_left_out_of_a_channel_is_as_for_everybody() -> None:
    up, down = ("party_1", "label_holder"), ("label_holder", "party_1")
    other = ("party_2", "label_holder")
    found = network_of("{preset: mobile, down: {latency: 1 ms}}")
    assert found.channel(*down) == Channel(50e6, 0.001, 0.020)
    assert found.channel(*up) == PRESETS["mobile"].up
    found = network_of("{bandwidth: 10 Mbit/s, parties: {party_1: {up: {latency: 0.5}}}}")
    assert found.channel(*up) == Channel(10e6, 0.5)
    assert found.channel(*down) == found.channel(*other) == Channel(10e6)
    found = network_of("{preset: mobile, parties: {party_1: {down: {jitter: 0.01}}}}")
    assert found.channel(*down) == Channel(50e6, 0.025, 0.01)
    found = network_of("{down: {bandwidth: 1000000}, parties: {party_1: {down: {latency: 0.5}}}}")
    assert found.channel(*down) == Channel(1e6, 0.5)
    assert found.channel("label_holder", "party_2") == Channel(1e6)
    found = network_of("{preset: wan-300mbit, bandwidth: .inf, latency: null}")
    assert found.channel(*up) == Channel(latency=0.010)


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"network": {"preset": "global"}}, "network.preset"),
        ({"network": {"latency": 0.5, "queue": 3}}, "network.latency"),
        ({"costs": {"slowdown": {"party_1": 2}}}, "costs.slowdown"),
        ({"costs": {"delays": {"party_1": {"delay": "constant", "each": 1}}}}, "costs.delays"),
    ],
)
def test_real_time_takes_no_modelled_network(settings: Any, key: str) -> None:
    data = {"data": {"name": "mnist5k"}, "driver": "processes"}
    with pytest.raises(ConfigurationError, match=f"{key}: driver: processes .* driver: simulate"):
        parse_config(data | settings, "f")
    config = parse_config(data | {"network": {"queue": 3}}, "f")
    assert config.build_driver() == Processes(3)
    assert parse_config(config.as_dict(), "f") == config


def test_delays_are_drawn_from_the_runs_seed_unless_another_is_given() -> None:
    delays = {"party_1": {"delay": "exponential", "mean": 1}}
    for costs, seed in (({}, 7), ({"delays_seed": 3}, 3)):
        config = parse_config(
            {
                "data": {"name": "mnist5k"},
                "training": {"seed": 7},
                "costs": {"delays": delays, **costs},
            },
            "f",
        )
        driver = config.build_driver()
        assert isinstance(driver, Simulate)
        assert driver.costs == Delayed(Measured(), {"party_1": Exponential(1)}, seed)


def test_who_was_left_out_needs_no_channel_and_is_not_slow() -> None:
    config = parse_config(
        {
            "data": {"name": "mnist5k"},
            "network": {
                "parties": {"party_1": {"up": {"latency": 1}}},
                "gateways": {"party_1": {"out": 1e6}},
            },
            "costs": {
                "slowdown": {"party_1": 2},
                "delays": {"party_1": {"delay": "constant", "each": 1}},
            },
        },
        "f",
    )
    driver = config.without("party_1", 0).build_driver()
    assert isinstance(driver, Simulate)
    for part in (driver.network, driver.costs):
        part.check(["party_2", "party_3", "party_4", "label_holder"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"network": {"latency": "9999999999 s"}}, "network.latency: input should be less than or"),
        (
            {"network": {"jitter": 1e300}},
            "network.jitter: input should be less than or equal to",
        ),
        (
            {"network": {"bandwidth": 300}},
            "300 is bits per second, less than any line has.*'300 Mbit/s'",
        ),
        ({"network": {"bandwidth": 1e-5}}, "network.bandwidth: input should be greater than or eq"),
        (
            {"network": {"gateways": {"a": {"out": 1e-300}}}},
            "network.gateways.a.out: input should be greater than or equal to 1",
        ),
        ({"costs": {"delays_seed": 2**64}}, "costs.delays_seed: input should be less than"),
        ({"costs": {"delays_seed": True}}, "costs.delays_seed: input should be a valid integer"),
        (
            {"costs": {"delays": {"a": {"delay": "exponential", "mean": 1e300}}}},
            "costs.delays.a: the mean of delays must be 0 to 1e6 s",
        ),
        ({"costs": {"slowdown": {"a": 1e300}}}, "costs.slowdown.a: input should be less than or"),
        (
            {"costs": {"kind": "modelled", "otherwise": 1e305}},
            "costs.otherwise: input should be",
        ),
    ],
)
def test_what_no_clock_can_hold_is_refused_by_its_key(settings: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        parse_config({"data": {"name": "mnist5k"}, **settings}, "f")


def driver_of(latency: float, file: Path | None = None, price: float = 0.002) -> Simulate:
    costs: Any = Modelled(otherwise=price)
    if file is not None:
        costs = Delayed(costs, {"party_0": FromTrace(str(file))})
    return Simulate(Network(Channel(latency=latency)), costs)


@pytest.mark.parametrize("method", [celu(2, 2, 0.0), WHO_IS_THERE], ids=["celu", "who is there"])
def test_where_time_decides_a_run_goes_on_at_the_same_times_alone(
    method: Any, tmp_path: Path
) -> None:
    file = tmp_path / "trace.csv"
    file.write_text("party_0\n0.1\n", encoding="utf-8")

    def train(driver: Any, out: str, **more: Any) -> Any:
        federation = small_federation(method)
        return federation.train(method, TRAINING, driver, out=tmp_path / out, report=False, **more)

    train(driver_of(0.02, file), "run", stop_before=3)
    others = [driver_of(0.01, file), driver_of(0.02), driver_of(0.02, file, 0.001), Simulate()]
    for other in (*others, Processes()):
        with pytest.raises(CheckpointError, match="over another network, with other costs"):
            train(other, "run", resume=True)
    file.write_text("party_0\n0.2\n", encoding="utf-8")
    with pytest.raises(CheckpointError, match="over another network, with other costs"):
        train(driver_of(0.02, file), "run", resume=True)
    moved = tmp_path / "moved.csv"  # what it holds counts, and not where it lies
    moved.write_text("party_0\n0.1\n", encoding="utf-8")
    rest = train(driver_of(0.02, moved), "run", resume=True)
    whole = train(driver_of(0.02, moved), "whole")
    assert whole.history.rows() == rest.history.rows()
    for driver, warns in ((driver_of(0.02), False), (Simulate(), True)):
        summary = train(driver, f"warns {warns}").summary
        assert any("time was measured" in each for each in summary["warnings"]) is warns


UNTIMED = pytest.mark.parametrize(
    "method", [svfl(), celu(2, 0), celu(2, 2, 0.0, overlap=False)], ids=["svfl", "bcd", "celu"]
)


@UNTIMED
def test_a_run_goes_on_over_the_network_alone_that_it_was_begun_over(
    method: Any, tmp_path: Path
) -> None:
    assert not method.timed

    def train(driver: Any, **more: Any) -> Any:
        federation = small_federation(method)
        return federation.train(method, TRAINING, driver, out=tmp_path, report=False, **more)

    train(driver_of(0.02), stop_before=3)
    costs = driver_of(0.02).costs
    for other, begun in (
        (Simulate(), "over another network .*20 ms"),
        (driver_of(0.01), "over another network .*20 ms"),
        (Simulate(driver_of(0.02).network, Measured()), "with other costs .*compute: modelled"),
        (
            Simulate(driver_of(0.02).network, Modelled(otherwise=1.0)),
            "over another network, or with other",
        ),
        (replace(driver_of(0.02), untimed={Purpose.EVALUATION}), "with other costs"),
    ):
        with pytest.raises(CheckpointError, match=f"a run that was begun {begun}"):
            train(other, resume=True)
    run = train(Simulate(driver_of(0.02).network, costs), resume=True)
    assert run.summary["completed"]
    assert not any("more than one way" in each for each in run.summary["warnings"])
    with pytest.raises(CheckpointError, match="over another network"):
        train(driver_of(0.5), resume=True)  # nor is one that is over told of another


@UNTIMED
def test_a_run_that_goes_on_under_another_driver_tells_of_both(method: Any, tmp_path: Path) -> None:
    def train(driver: Any, **more: Any) -> Any:
        federation = small_federation(method)
        return federation.train(method, TRAINING, driver, out=tmp_path, report=False, **more)

    begun = train(driver_of(0.02), stop_before=3).summary
    assert begun["network"]["up"] == "no limit of bandwidth, 20 ms"
    rest = train(Processes(), resume=True, stop_before=4).summary
    assert rest["driver"] == "simulate before round 3, then processes"
    assert rest["clock"] == {
        "network": "modelled before round 3, then measured",
        "compute": "modelled before round 3, then measured",
    }
    assert rest["network"] == begun["network"]
    assert any("more than one way (simulate before round 3" in each for each in rest["warnings"])
    with pytest.raises(CheckpointError, match="over another network"):
        train(driver_of(0.01), resume=True)
    again = train(driver_of(0.02), resume=True).summary
    assert again["driver"] == "simulate before round 3, processes before round 4, then simulate"
    assert again["completed"]


def test_a_driver_under_which_nothing_was_left_to_do_is_not_told_of(tmp_path: Path) -> None:
    def train(driver: Any, **more: Any) -> Any:
        federation = small_federation(svfl())
        return federation.train(svfl(), TRAINING, driver, out=tmp_path, report=False, **more)

    train(driver_of(0.02))
    again = train(Processes(), resume=True).summary
    assert again["driver"] == "simulate"
    assert not any("more than one way" in each for each in again["warnings"])


def test_of_what_an_earlier_checkpoint_was_timed_by_nothing_is_made_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train(method: Any, driver: Any, **more: Any) -> Any:
        federation = small_federation(method)
        out = tmp_path / str(method.timed)
        return federation.train(method, TRAINING, driver, out=out, report=False, **more)

    methods = svfl(), celu(2, 2, 0.0)
    with monkeypatch.context() as then:
        then.setattr(json, "dumps", partial(_without_clocks, json.dumps))
        for method in methods:
            train(method, driver_of(0.02), stop_before=3)
    untimed, timed = (train(m, driver_of(0.02), resume=True).summary for m in methods)
    assert untimed["driver"] == "not noted before round 3, then simulate"
    assert timed["driver"] == "simulate"  # at other times it would have been refused


def _without_clocks(dumps: Any, value: Any, **how: Any) -> str:
    """Write JSON as an earlier version did, whose checkpoints told no clocks."""
    if isinstance(value, dict) and "fingerprint" in value:
        value.pop("clocks", None)
    return str(dumps(value, **how))


def test_delays_are_drawn_anew_in_each_round(tmp_path: Path) -> None:
    (tmp_path / "office.csv").write_text("bank\n1\n2\n4\n")
    for delay, expected in (
        (Exponential(0.1), None),
        (FromTrace(tmp_path / "office.csv"), [1e9, 2e9, 4e9, 1e9]),
    ):
        costs = Delayed(Modelled(otherwise=0.0), {"bank": delay}, seed=1)
        drawn = [costs.lost_nanoseconds("bank", round) for round in range(4)]
        if expected is None:
            assert len({*drawn}) == 4
        else:
            assert drawn == expected
        assert drawn == [costs.lost_nanoseconds("bank", round) for round in range(4)]
