"""What a user's own code raises while roles play: whose it was, at what, under every driver."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import nn

from colonnade.codecs import Float
from colonnade.drivers import Assignment, Processes, Replay, Simulate
from colonnade.effects import Expect, Receive, Send, Work
from colonnade.errors import ConfigurationError, RoleFailed
from colonnade.federation import Federation
from colonnade.methods import efvfl, svfl
from colonnade.organisations import LabelHolder, Party
from colonnade.training import Training
from toys import Scripted

DRIVERS = [Simulate(), Processes()]
X = torch.arange(24.0).view(12, 2) / 24


class Finds(torch.optim.SGD):
    """An optimiser that looks for what is not there at its last step of six."""

    def __init__(self, parameters):
        super().__init__(parameters, lr=0.1)
        self.steps = 0

    def step(self, closure=None):
        self.steps += 1
        if self.steps == 6:
            next(iter(()))
        return super().step(closure)


def federation(**party):
    return Federation(
        [Party("bank", X, nn.Linear(2, 3), **party), Party("shop", X, nn.Linear(2, 3))],
        LabelHolder("insurer", torch.arange(12) % 2, nn.Linear(6, 2)),
    )


@pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.label)
def test_an_end_of_iteration_in_work_is_no_end_of_the_role(driver):
    with pytest.raises(RoleFailed, match=r"^bank failed at 'backward' in round 5 \(training\): St"):
        federation(optimiser=Finds).train(training=Training(3, batch_size=6), driver=driver)


@pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.label)
def test_what_is_raised_outside_of_work_names_the_role_too(driver):
    async def fails(role):
        role.round = 7
        raise KeyError("x")

    async def waits(role):
        await Receive(Expect("x", 0, ("a",)))

    with pytest.raises(RoleFailed, match=r"^a failed in round 7: KeyError: 'x'"):
        driver.run([Scripted("a", fails, ["b"]), Scripted("b", waits)], Assignment())


@pytest.mark.parametrize("error", [StopIteration("none"), ArithmeticError("none\nat all")])
def test_a_replay_names_whose_work_raised_what(error):
    fails = False

    def work():
        if fails:
            raise error

    async def works(role):
        await Work("decode", work, 2)
        await Send("b", "x", 2, b"")

    async def waits(role):
        await Receive(Expect("x", 2, ("a",)))

    def roles():
        return [Scripted("a", works, ["b"]), Scripted("b", waits)]

    trace = Simulate().run(roles(), Assignment()).trace
    fails = True
    told = rf"^a failed at 'decode' in round 2 \(training\): {type(error).__name__}: none$"
    with pytest.raises(RoleFailed, match=told) as caught:
        Replay(trace).run(roles(), Assignment())
    assert caught.value.__cause__ is error


@dataclass(frozen=True)
class Texty(Float):
    """Encodes into text."""

    def encode(self, x, key, saliency=None):
        return super().encode(x, key).hex()


@dataclass(frozen=True)
class Array(Float):
    """Decodes into an array of numpy."""

    def decode(self, body, shape, key):
        return super().decode(body, shape, key).numpy()


@dataclass(frozen=True)
class Short(Float):
    """Loses the last row from a round on; before it is tried is none."""

    def decode(self, body, shape, key):
        values = super().decode(body, shape, key)
        return values[:-1] if key.round else values


@dataclass(frozen=True)
class Spoils(Float):
    """Decodes into what is no number from a round on."""

    def decode(self, body, shape, key):
        return super().decode(body, shape, key) * (torch.nan if key.round else 1)


@pytest.mark.parametrize(
    ("codec", "told"),
    [
        (Texty(), r"Texty.encode returned str, and is to return bytes; colonnade\.testing\.codecs"),
        (Array(), "Array.decode returned ndarray, and is to return a tensor of 2 x 3 finite"),
        (Short(), r"at \w+: Short.decode returned 5 x 3 float32, and is to return .* 6 x 3"),
        (Spoils(), r"at \w+: Spoils.decode returned NaN or infinite numbers, and is to return"),
    ],
    ids=["text", "array", "short", "nan"],
)
@pytest.mark.parametrize("method", [svfl, efvfl])
def test_what_a_codec_returns_that_none_may_names_the_codec(method, codec, told):
    with pytest.raises(ConfigurationError, match=told):
        federation().train(method(codec=codec), Training(2, batch_size=6))
