"""Networks and organisations that are slow: gateways, jitter, presets, delays; exact times."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from colonnade import Simulate
from colonnade.channels import PRESETS, Channel, Gateway, Network
from colonnade.config import load_config, parse_config
from colonnade.costs import Delayed, Modelled
from colonnade.delays import Constant, Exponential, FromTrace
from colonnade.drivers import Assignment
from colonnade.effects import Expect, Purpose, Receive, Report, Send
from colonnade.errors import ConfigurationError, DataError
from colonnade.methods import celu, fedbcd, svfl
from colonnade.models import Sum
from colonnade.planning import plan
from colonnade.streams import StreamKey
from colonnade.testing.methods import small_federation
from colonnade.training import Training, Watcher
from colonnade.wire import carried_bytes, encode_header
from toy_deadline import Deadline

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
@pytest.mark.parametrize("stop", [1, 3, 6])
def test_a_run_through_gateways_goes_on_to_the_same_times(
    method: Any, stop: int, tmp_path: Path
) -> None:
    channel = Channel(bandwidth=1e6, latency=0.02, jitter=0.03)
    network = Network(channel, gateways={"holder": Gateway(2e5, 3e5), "party_1": Gateway(1e5, 1e5)})
    costs = Delayed(Modelled(otherwise=0.002), {"party_0": Exponential(0.05)})
    driver = Simulate(network, costs)

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
        if role == name and kind != "wait"
    )
    assert lost == run.summary["rounds"] * 10**9
    if method.name != "celu" and not resumed:  # its plan is of steps that take no time
        federation = small_federation(method, holder_has_features=columns)
        planned = plan(federation, method, TRAINING, driver)
        assert planned.seconds == pytest.approx(run.summary["seconds_virtual"], rel=0.01)


def test_a_trace_says_seconds_by_round_and_organisation(tmp_path: Path) -> None:
    file = tmp_path / "delays.csv"
    file.write_text("bank,shop\n0.5,0\n1,2e-1\n", encoding="utf-8")
    trace = FromTrace(str(file))
    found = [trace.seconds(StreamKey(0, "shop", "delay", round)) for round in range(4)]
    assert found == [0, 0.2, 0, 0.2]
    with pytest.raises(ConfigurationError, match="has no column 'clinic'; it has bank, shop"):
        trace.seconds(StreamKey(0, "clinic", "delay", 0))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bank,shop\n1,2\n3\n", "row 2: 1 cells, but 2 organisations are named"),
        ("bank,shop\n1,2\n1,2,3\n", "row 2: 3 cells, but 2"),
        ("bank,shop\n1,x\n", "row 1, column 'shop': 'x' is no number of seconds"),
        ("bank,shop\n-1,0\n", "row 1, column 'bank': '-1' is no number of seconds"),
        ("bank,shop\n1,inf\n", "row 1, column 'shop': 'inf' is no number"),
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
    with pytest.raises(DataError, match="cannot be read"):
        FromTrace(str(tmp_path / "none.csv"))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Channel(bandwidth=0), "bandwidth must be above 0 bit/s, not 0"),
        (lambda: Channel(jitter=-1), "jitter must be 0 s or more, not -1"),
        (lambda: Channel(jitter=math.inf), "jitter must be 0 s or more"),
        (lambda: Gateway(out=0), "a gateway's out must be above 0 bit/s, not 0"),
        (lambda: Gateway(into=-5), "a gateway's into must be above 0 bit/s, not -5"),
        (
            lambda: Network.preset("moon", "hub"),
            "there is no network 'moon'; there are lan",
        ),
        (lambda: Constant(-1), "a constant delay must be 0 s or more"),
        (lambda: Exponential(math.nan), "the mean of delays must be 0 s or more"),
    ],
)
def test_what_no_network_has_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make()


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
    assert driver.network.channel("registry", "party_1") == Channel(100e6)
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
