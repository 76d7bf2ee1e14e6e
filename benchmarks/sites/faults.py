"""Faults while a run trains over FLARE: processes are killed, a network is away.

Whatever it is, the run completes, or a job that is submitted again completes it, with the bits of
one that nothing happened to; or it is refused with a reason. Nothing hangs, and no process is left.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from types import MappingProxyType

from colonnade.deployment.local import SERVER, Local
from colonnade.errors import ColonnadeError
from colonnade.runs import Run
from sites.ground import EVERYBODY, HOLDER, Ground, Job, Outcome, ground
from sites.relay import Relay
from sites.table import Row

__all__ = ["FAULTS", "faults"]

AWAY = 20.0  # seconds
PATIENCE = 200.0  # seconds in which a job ends, or FLARE has forgotten how it did
BEHIND = "shop"  # the site whose network is a relay
TRAINING = {"epochs": 60, "checkpoint_every": 20, "evaluate_every": 100}

Fault = Callable[[Ground, Relay, str], None]


def _kill(place: Ground, *words: str) -> None:
    for process in place.processes(*words):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def _worker_killed(name: str, place: Ground, relay: Relay, number: str) -> None:
    _kill(place, f"uid={name}", number)


def _parent_killed(name: str, place: Ground, relay: Relay, number: str) -> None:
    parent = place.local.processes[name]
    parent.kill()
    parent.wait()
    place.local.start_one(name)


def _site_killed(name: str, place: Ground, relay: Relay, number: str) -> None:
    _kill(place, f"uid={name}")
    place.local.processes[name].wait()
    place.local.start_one(name)


def _server_killed(place: Ground, relay: Relay, number: str) -> None:
    _kill(place, f"/{SERVER}")
    place.local.processes[SERVER].wait()
    place.restart_server()
    place.wait_for(EVERYBODY)


def _stalled(place: Ground, relay: Relay, number: str) -> None:
    relay.stall()
    time.sleep(AWAY)
    relay.restore()


def _refused(place: Ground, relay: Relay, number: str) -> None:
    relay.refuse()
    time.sleep(AWAY)
    relay.restore()


FAULTS: Mapping[str, Fault] = MappingProxyType(
    {
        "nothing": lambda *_: None,
        "a party's worker is killed": partial(_worker_killed, "bank"),
        "the label holder's worker is killed": partial(_worker_killed, HOLDER),
        "a site's network stalls for 20 s": _stalled,
        "a site's network refuses for 20 s": _refused,
        "all of a site is killed": partial(_site_killed, "clinic"),
        "a site is killed, but not its worker": partial(_parent_killed, "clinic"),
        "all of the server is killed": _server_killed,
    }
)


def faults(only: str = "") -> Iterator[Row]:
    """Yield a row for each fault, or for one."""
    relays = []

    def behind_relay(local: Local) -> None:
        startup = local.folder / BEHIND / "startup" / "fed_client.json"
        said = json.loads(startup.read_text())
        [server] = said["servers"]
        port = int(server["service"]["target"].rpartition(":")[2])
        relays.append(Relay(port))
        server["service"]["target"] = f"{SERVER}:{relays[0].port}"
        startup.write_text(json.dumps(said))

    with ground(before=behind_relay) as place:
        [relay] = relays
        expected = place.job("expected", **TRAINING).expected
        for number, (name, fault) in enumerate(FAULTS.items()):
            if only in name:
                job = place.job(f"fault-{number}", **TRAINING)
                begun = time.monotonic()
                try:
                    how, difference = _survived(place, relay, fault, job, expected)
                except (TimeoutError, ColonnadeError) as error:
                    how, difference = "it cannot go on", str(error)
                told = how + (f"; {difference}" if difference else "; the same bits")
                yield Row(name, told, not difference, time.monotonic() - begun)
        relay.close()


def _survived(
    place: Ground, relay: Relay, fault: Fault, job: Job, expected: Run
) -> tuple[str, str]:
    """Let it happen; return how the run went on, and how what came of it differs."""
    first = place.submit(job)
    place.wait_for_checkpoints(job)
    fault(place, relay, first)
    outcome = place.wait(first, PATIENCE)
    how = _told(place, outcome)
    if not place.settles(first):
        return how, f"processes of the job are left: {place.processes_of_job(first)}"
    if not outcome.completed:
        place.wait_for(EVERYBODY)
        again = place.carried_out(job)
        how += f"; again: {_told(place, again)}"
        if not again.completed:
            return how, "it does not go on"
    return how, place.difference(job, expected)


def _told(place: Ground, outcome: Outcome) -> str:
    """Say how a job ended, and how many sites say why."""
    if outcome.completed:
        return f"completed ({outcome.seconds:.0f} s)"
    why = place.why(outcome.number)
    status = "FLARE lists it as before" if outcome.hangs else outcome.status
    reasons = "; ".join(dict.fromkeys(why.values()))
    return f"{status} ({outcome.seconds:.0f} s), told at {len(why)} sites: {reasons}"
