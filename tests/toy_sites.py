"""Sites and their server in threads of one process, over datagrams that may go astray."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import numpy as np
import polars as pl
import torch

from colonnade.config import parse_config
from colonnade.config.aligning import aligning, carry_out
from colonnade.deployment import meeting
from colonnade.deployment.guest import Guest
from colonnade.deployment.host import Host
from colonnade.deployment.job import job_of
from colonnade.deployment.site import load_site
from colonnade.drivers.couriered import GATEKEEPER
from colonnade.errors import ColonnadeError
from colonnade.export import load_part


class Mesh:
    """Carries datagrams between threads, and loses, repeats and delays some of them."""

    def __init__(self, badly=0.0):
        self.ends = {}
        self.random = random.Random(5)
        self.badly = badly
        self.late = []
        self.lock = threading.Lock()

    def post(self, own):
        def post(peer, datagram):
            end = self.ends.get(peer)
            if end is None:
                return
            with self.lock:
                fate, late = self.random.random(), self.late
                if fate < self.badly:
                    late.append((end, own, datagram))
                    return
                twice = fate < 2 * self.badly
                waiting, self.late = (late, []) if twice else ([], late)
            end.receive(own, datagram)
            if twice:
                end.receive(own, datagram)
            for other, sender, held in waiting:
                other.receive(sender, held)

        return post


def tables(folder: Path, rows: int = 120) -> dict[str, Path]:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(rows, 6)).round(3)
    y = np.where(x[:, 0] + x[:, 3] > 0, "bought", "left")
    ids = [f"person-{number}" for number in range(1000, 1000 + rows)]
    parts = {
        "bank": pl.DataFrame({"id": ids, "a": x[:, 0], "b": x[:, 1], "c": x[:, 2]})[5:],
        "shop": pl.DataFrame({"id": ids, "d": x[:, 3], "e": x[:, 4]}).reverse(),
        "clinic": pl.DataFrame({"id": ids, "g": x[:, 0] * x[:, 3], "h": x[:, 2]}),
        "labels": pl.DataFrame({"id": ids, "f": x[:, 5], "y": y})[:-7],
    }
    return {name: written(folder / f"{name}.csv", frame) for name, frame in parts.items()}


def written(path, frame):
    frame.write_csv(path)
    return path


def configuration(folder, method="svfl", **training):
    return {
        "data": {
            "id": "id",
            "folder": str(folder),
            "parties": {
                "bank": {"source": "bank.csv"},
                "shop": {"source": "shop.csv"},
            },
            "labels": {"source": "labels.csv", "column": "y"},
        },
        "label_holder": {"name": "insurer"},
        "model": {"bottom": {"widths": [4]}, "top": {"widths": []}},
        "method": method,
        "training": {"epochs": 2, "batch_size": 16, "secrets": "seed", **training},
    }


def federation(tmp_path, config):
    """Write what each site has: its tables, its alignment, its site.yaml."""
    meeting, organisations = aligning(config)
    folders = {name: tmp_path / name for name in meeting.everybody}
    for folder in folders.values():
        folder.mkdir(exist_ok=True)
    carry_out(config, meeting, organisations, tmp_path / "all", lambda *_: None)
    for name, folder in folders.items():
        (folder / "aligned").mkdir(exist_ok=True)
        (folder / "aligned" / f"{name}.json").write_bytes(
            (tmp_path / "all" / f"{name}.json").read_bytes()
        )
        own = f"table: {{source: {tmp_path}/{name}.csv}}\n"
        if name == "insurer":
            own = f"labels: {{source: {tmp_path}/labels.csv, column: y}}\n"
        (folder / "site.yaml").write_text(f"organisation: {name}\nid: id\n{own}")
    return {name: load_site(folder / "site.yaml") for name, folder in folders.items()}


def play(job, sites, mesh, server=None):
    """Let all sites and the server play, each in threads of its own; return who failed how."""
    server = mesh.ends[GATEKEEPER] = server or Host(job, mesh.post(GATEKEEPER))
    guests = {name: Guest(job, site, mesh.post(name), "threads") for name, site in sites.items()}
    mesh.ends |= guests
    failed = {}

    def attend(name, function):
        try:
            function()
            if name != GATEKEEPER:  # whoever runs the sites sees that one has ended, and how
                server.finish(name)
        except ColonnadeError as error:
            failed[name] = error
            if name != GATEKEEPER:
                server.lose(name, str(error))

    threads = [
        threading.Thread(target=attend, args=(name, guest.attend)) for name, guest in guests.items()
    ]
    for thread in threads:
        thread.start()
    attend(GATEKEEPER, server.preside)
    for thread in threads:
        thread.join()
    return failed


def prepared(tmp_path, method="svfl", parties=("bank", "shop"), model=None, **training):
    """Return a configuration, its job, and the sites of its organisations, which have aligned."""
    tables(tmp_path)
    said = configuration(tmp_path, method, **training)
    said["model"] = model or said["model"]
    said["data"]["parties"] = {name: {"source": f"{name}.csv"} for name in parties}
    config = parse_config(said)
    sites = federation(tmp_path, config)
    aligned = config.as_dict()
    aligned["data"]["alignment"] = str(tmp_path / "all")
    return parse_config(aligned), job_of(config, "first"), sites


def failing(mesh, name, after):
    """Let the machine of ``name`` fail when its role has sent so many messages."""
    usual = mesh.post

    def post(own):
        carry = usual(own)

        def counted(peer, datagram):
            player = mesh.ends[name]._transport._player if own == name else None
            if player is not None and sum(player.sent.values()) >= after:
                mesh.ends[name].end("its machine failed")
            else:
                carry(peer, datagram)

        return counted

    mesh.post = post
    return mesh


def same_as(config, sites, run="first", driver=None):
    federation = config.build_federation()
    training = config.training.build(len(federation.validation_rows))
    expected = federation.train(config.method.build(), training, driver)
    for name, modules in expected.models.items():
        part = load_part(sites[name].runs / run / "parts" / name)
        for which, module in modules.items():
            for key, value in module.state_dict().items():
                assert torch.equal(part.tensors[which][key], value)
    return expected


def heard_of(server, name, message):
    """Let a server hear of a site, once all play, what that does not say."""
    heed = server._heed

    def heeded(gatekeeper):
        if gatekeeper.roll.everybody_is_there and message is not None:
            server._deliver(name, meeting.encode(message))
            server._heed = heed
        heed(gatekeeper)

    server._heed = heeded
    return server
