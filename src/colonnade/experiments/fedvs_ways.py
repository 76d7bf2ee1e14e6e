"""The five ways to deal with stragglers that FedVS's experiments compare, and how each trains."""

from __future__ import annotations

from dataclasses import dataclass

from colonnade.costs import CostModel, Delayed
from colonnade.experiments.experiment import Scale
from colonnade.experiments.fedvs_setting import FREE, Setting, coded_delays
from colonnade.methods import Method, fedvs, vafl, wait_dp
from colonnade.models import Mean
from colonnade.stragglers import Fastest

__all__ = ["FEDVS", "IGNORE", "VAFL", "WAIT", "WAIT_DP", "Way", "ways"]

FEDVS, WAIT, IGNORE, VAFL, WAIT_DP = "FedVS", "Wait", "Ignore", "VAFL", "Wait-DP"


@dataclass(frozen=True)
class Way:
    """A way to deal with stragglers.

    Parameters
    ----------
    name
        What tables call it.
    method
        How it trains.
    times
        How many times as many epochs as the setting says: ways whose rounds are short train on.
    evaluations
        How often it is evaluated: ways whose rounds are long more often.
    """

    name: str
    method: Method
    times: int = 1
    evaluations: int = 12

    def costs(self, setting: Setting, scale: Scale, seed: int) -> CostModel:
        """Return what work takes: parties are delayed where they compute, or on others' shares."""
        delays = setting.stragglers(scale, seed)
        if self.name == FEDVS:
            return coded_delays(delays, setting.batch, seed)
        return Delayed(FREE, delays, seed)


def ways(setting: Setting) -> tuple[Way, ...]:
    """Return the five ways of Fig. 2."""
    present = setting.parties // 2
    return (
        Way(FEDVS, fedvs(setting.segments)),
        Way(WAIT, Method("wait", Mean()), evaluations=48),
        Way(IGNORE, Method("ignore", Mean(), stragglers=Fastest(present)), 3),
        Way(VAFL, vafl(fusion=Mean()), 2),
        Way(WAIT_DP, wait_dp(5.0, 1e-5, fusion=Mean()), evaluations=48),
    )
