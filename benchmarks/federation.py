"""Latency of a round over FLARE: our players and courier beside the engine's own bare messages.

    python benchmarks/federation.py [--rounds 200] [--kilobytes 256]

A federation on this machine: a server that relays, a label holder and two parties, mutual TLS. A
round is a message to each party and one back. First the engine's cells carry the bytes as they are
(``fire_and_forget``, and a thread that waits), then sealed by the engine from end to end; then two
roles play it, each message numbered, acknowledged, sealed, checked and in the ledger. All in the
same processes, one after the other.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.shareable import make_reply
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey
from nvflare.fuel.f3.cellnet.utils import new_cell_message

from colonnade.deployment import flare, kits, local, meeting
from colonnade.deployment.engagement import Folders
from colonnade.deployment.folders import CLASSES, write_job
from colonnade.deployment.guest import Guest
from colonnade.deployment.job import JobConfig
from colonnade.deployment.leaving import Leaving
from colonnade.deployment.site import SiteConfig
from colonnade.effects import Boundary, Expect, Receive, Send
from colonnade.flows import Limits

PARTIES, HOLDER = ("bank", "shop"), "insurer"
CHANNEL = "bare"
BARE = ("bare", "sealed")  # how the engine's own messages travel


class Thrower:
    """The label holder: a message to each party, and one back, so many times."""

    def __init__(self, rounds: int, size: int) -> None:
        self.name, self.peers, self.round = HOLDER, PARTIES, 0
        self.rounds, self.body, self.seconds = rounds, os.urandom(size), []

    async def run(self) -> None:
        await Boundary(0)
        for turn in range(self.rounds):
            start = time.perf_counter()
            for party in PARTIES:
                await Send(party, "ball", turn, self.body)
            await Receive(Expect("ball", turn, PARTIES))
            self.seconds.append(time.perf_counter() - start)

    def state_dict(self) -> dict:
        return {}


class Catcher:
    """A party: what comes goes back."""

    def __init__(self, name: str, rounds: int) -> None:
        self.name, self.peers, self.round, self.rounds = name, (HOLDER,), 0, rounds

    async def run(self) -> None:
        await Boundary(0)
        for turn in range(self.rounds):
            got = await Receive(Expect("ball", turn, (HOLDER,)))
            await Send(HOLDER, "ball", turn, next(iter(got)).body)

    def state_dict(self) -> dict:
        return {}


class Playing:
    """What a site does in this benchmark, in place of training."""

    every, limits, noted_in = 0, Limits(), None
    leaving = Leaving(frozenset({"ball"}))

    def __init__(self, name: str, settings: dict) -> None:
        self.name, self.settings = name, settings

    def leaving_again(self, sent) -> Leaving:
        return self.leaving

    def brings(self) -> meeting.Brings:
        return meeting.Brings(meeting.PROTOCOL, "", "", 0, "", 1, None)

    def top(self, everybody: meeting.Everybody) -> meeting.Top:
        return meeting.Top(0)

    def agree(self, everybody: meeting.Everybody) -> str:
        return ""

    @contextmanager
    def folders(self):
        yield Folders()

    def cast(self):
        rounds, size = self.settings["rounds"], self.settings["size"]
        return Thrower(rounds, size) if self.name == HOLDER else Catcher(self.name, rounds)

    def conclude(self, role, ledger, record) -> None:
        if self.name == HOLDER:
            found = Path(self.settings["found"])
            bare = json.loads(found.read_text())
            found.write_text(json.dumps(bare | {"played": role.seconds}))


class PlayingGuest(Guest):
    """A guest that plays instead of training."""

    def _engaged(self) -> Playing:
        return Playing(self.name, json.loads(os.environ["COLONNADE_BENCHMARK"]))


class Site(flare.Attend):
    """A site: bare messages first, then roles."""

    def execute(self, task_name, shareable, fl_ctx, abort_signal):
        name, settings = fl_ctx.get_identity_name(), json.loads(os.environ["COLONNADE_BENCHMARK"])
        job = flare._job(fl_ctx)
        cells, cell = flare._cells(job, fl_ctx), flare._cell(fl_ctx)
        if name == HOLDER:
            found = {key: self._throw(cell, cells, settings, key == "sealed") for key in BARE}
            Path(settings["found"]).write_text(json.dumps(found))
        else:
            self._catch(cell)
        post = flare.CellPost(cell, name, cells)
        site = SiteConfig.model_construct(organisation=name, runs=Path(settings["found"]).parent)
        guest = PlayingGuest(job, site, post, "benchmark")
        post.listen(guest.receive)
        guest.attend()
        return make_reply(ReturnCode.OK)

    def _throw(self, cell, cells, settings, sealed) -> list[float]:
        here, got = threading.Semaphore(0), threading.Event()

        def throw(party, body) -> None:
            message = new_cell_message({}, body)
            cell.fire_and_forget(CHANNEL, "ball", cells[party], message, secure=sealed)

        def heard(message) -> None:
            here.release() if len(message.payload) > 1 else got.set()

        cell.register_request_cb(CHANNEL, "back", heard)
        for party in PARTIES:  # until it listens
            got.clear()
            while not got.wait(0.5):
                throw(party, b"?")
        body, seconds = os.urandom(settings["size"]), []
        for _ in range(settings["rounds"]):
            start = time.perf_counter()
            for party in PARTIES:
                throw(party, body)
            for _ in PARTIES:
                here.acquire()
            seconds.append(time.perf_counter() - start)
        return seconds

    def _catch(self, cell) -> None:
        def heard(message) -> None:
            origin = message.get_header(MessageHeaderKey.ORIGIN)
            back = new_cell_message({}, bytes(message.payload))
            sealed = message.get_header(MessageHeaderKey.SECURE)
            cell.fire_and_forget(CHANNEL, "back", origin, back, secure=sealed)

        cell.register_request_cb(CHANNEL, "ball", heard)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--kilobytes", type=int, default=256)
    said = parser.parse_args()
    job = JobConfig(
        run="latency", parties=list(PARTIES), label_holder={"name": HOLDER}, rows={"id": "id"}
    )
    with tempfile.TemporaryDirectory() as temporary:
        folder, found = Path(temporary), Path(temporary) / "found.json"
        settings = {"rounds": said.rounds, "size": said.kilobytes * 1024, "found": str(found)}
        os.environ["COLONNADE_BENCHMARK"] = json.dumps(settings)
        os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), *sys.path])
        write_job(job, folder / "job")
        config = folder / "job" / "app" / "config" / "config_fed_client.json"
        config.write_text(config.read_text().replace(CLASSES[1], "federation.Site"))
        kits.CLASSES = (*CLASSES, "federation.Site")
        with local.local_federation(folder / "flare", job.everybody) as federation:
            federation.start(job.everybody)
            completed = federation.wait(federation.submit(folder / "job"))
        if not completed:
            sys.exit("the job failed")
        seconds = json.loads(found.read_text())
    bare, sealed, played = (1e3 * median(seconds[key]) for key in (*BARE, "played"))
    print(f"{said.kilobytes} KB to each of {len(PARTIES)} parties and back, through a relay:")
    print(f"  bare messages          {bare:6.2f} ms")
    print(f"  the same, end to end   {sealed:6.2f} ms   {sealed / bare:.2f} times as long")
    print(f"  roles                  {played:6.2f} ms   {played / bare:.2f} times as long")


if __name__ == "__main__":
    main()
