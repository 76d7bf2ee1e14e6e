"""Many rounds of FedVS in which one answer always comes too late: nothing is kept of them."""

from __future__ import annotations

import tempfile
from pathlib import Path

from colonnade.channels import Channel, Network
from colonnade.costs import Modelled
from colonnade.drivers import Simulate
from colonnade.methods import fedvs
from colonnade.models import Sum
from colonnade.training import Training, Watcher
from siege.attack import Attack, Found
from siege.memory import used
from siege.subjects import polynomials

__all__ = ["LATE_ANSWERS"]

_MIB = 64  # that the process may grow by in the last nine tenths of a run
_BATCH = 20  # of the 60 rows that are trained on


def _run(trials: int, seed: int) -> Found:
    found = Found()
    method = fedvs(fusion=Sum())  # three answers suffice of four
    late = {("party_3", "holder"): Channel(latency=1.0)}
    driver = Simulate(Network(Channel(latency=0.01), late), Modelled(otherwise=0.001))
    epochs = max(1, trials * _BATCH // 60)
    rounds = epochs * 60 // _BATCH
    training = Training(
        epochs, _BATCH, seed, evaluate_every=rounds, checkpoint_every=max(1, rounds // 10)
    )
    memory: list[int] = []
    mail: list[int] = []
    with tempfile.TemporaryDirectory() as folder:

        def look(role: str, round: int, sent: int) -> None:
            if role == "holder" and round in (rounds // 10 + 1, rounds - 1):
                memory.append(used()[0])
                newest = max(Path(folder).glob("checkpoint/*/.mail.safetensors"))
                mail.append(newest.stat().st_size)

        watcher = Watcher(on_round=look)
        run = polynomials(method, parties=4).train(
            method, training, driver, out=folder, watcher=watcher, report=False
        )
    late_ones = sum(entry.discarded for entry in run.ledger if entry.kind == "coded_answer")
    grown, more = (memory[1] - memory[0]) / 1024, mail[1] - mail[0]
    told = f"{rounds:,} rounds, {late_ones:,} answers too late: {grown:+.0f} MiB"
    told += f", {more:+,} bytes of mail in a checkpoint of {mail[1]:,}"
    if grown > _MIB or more > mail[0] // 2 or late_ones < 0.9 * rounds:
        found.fail(told)
    else:
        found.hold(told)
    return found


LATE_ANSWERS = Attack(
    "many rounds of answers that come too late",
    f"the process grows by {_MIB} MiB at most, and what lies in a mailbox by half at most",
    10_000,
    _run,
)
