"""Time to a target between real organisations, over links that are really so slow.

Two companies and a registry that hosts the server train on NVIDIA FLARE, each in a network
namespace of its own: what a company sends and is sent passes a link of 300 Mbit/s (tbf) and a relay
that holds it back 25 ms in each direction. Credit-card default, 4096 rows a batch, embeddings of
256: 4 MB each way for each company and round. Targets are vanilla's best validation AUC with the
same seed, less .2 points and less .5; the time is from the first round on, with an evaluation each
epoch.

    python benchmarks/shaped.py --out shaped            # as root, half an hour
    python benchmarks/shaped.py --seeds 1 --only CELU

Prints a row for each run; a run that is in the folder is not trained again. Nothing is measured
where the kernel has no namespaces, or no tbf.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import queue
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from colonnade.config import parse_config
from colonnade.config.aligning import aligning, carry_out
from colonnade.config.run import RunConfig
from colonnade.datasets.credit import credit_tables
from colonnade.deployment.folders import write_job, write_site
from colonnade.deployment.job import job_of
from colonnade.deployment.local import SERVER, Local, local_federation
from colonnade.run_read import load_run
from colonnade.runs import Run

BITS, DELAY = 300e6, 0.025
HOLDER, HOLDS, PARTIES = "registry", "bank", ("bureau", "processor")
EVERYBODY = (*PARTIES, HOLDER)
BELOW = (0.002, 0.005)
INSIDE = "COLONNADE_SHAPED"
Waiting = queue.SimpleQueue[tuple[float, bytes]]
EIGHT = {"codec": "scalar", "bits": 8}
METHODS: Mapping[str, Any] = {
    "vanilla": "svfl",
    "CELU": {"name": "celu", "capacity": 5, "reuses": 5, "min_cosine": 0.5},
    "CELU, 8 bits": {
        **{"name": "celu", "capacity": 5, "reuses": 5, "min_cosine": 0.5},
        **{"embedding": EIGHT, "derivative": EIGHT},
    },
    "CELU, error feedback": {
        "name": "celu-error-feedback",
        "uplink": {
            "uplink": "plain",
            "link": {
                "link": "error_feedback",
                "codec": {"codec": "qsgd", "levels": 127, "norm": "max"},
            },
        },
        "exchange": {"exchange": "asynchronous", "downlink": {"codec": "scalar", "bits": 4}},
        "local_updates": {
            **{"local_updates": "workset", "capacity": 5, "reuses": 5, "min_cosine": 0.5}
        },
    },
}


# The network


def enter() -> None:
    """Go on in a namespace of one's own; exit with the reason where that cannot be."""
    if not all(map(shutil.which, ("unshare", "nsenter", "ip", "tc"))):
        sys.exit("unshare, nsenter, ip and tc are needed: nothing was measured")
    again = ["unshare", "-n", sys.executable, *sys.argv]
    os.execvpe("unshare", again, os.environ | {INSIDE: "1"})


def does(command: str) -> None:
    """Carry out a command; exit with what it says where it cannot be."""
    done = subprocess.run(command.split(), capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"no shaped network here ({done.stderr.strip()}): nothing was measured")


@contextmanager
def linked(names: tuple[str, ...]) -> Iterator[Mapping[str, str]]:
    """Give each name a namespace behind a link; return what a command there begins by."""
    does("ip link set lo up")
    shape = f"root tbf rate {BITS:.0f}bit burst 131072 latency 400ms"
    inside = {}
    holders = []
    try:
        for number, name in enumerate(names):
            holder = subprocess.Popen(["unshare", "-n", "sleep", "infinity"])
            holders.append(holder)
            within = inside[name] = f"nsenter --net=/proc/{holder.pid}/ns/net"
            own = Path("/proc/self/ns/net").readlink()
            while Path(f"/proc/{holder.pid}/ns/net").readlink() == own:
                time.sleep(0.01)  # until it has one of its own
            does(f"ip link add out{number} type veth peer name in{number}")
            does(f"ip link set in{number} netns {holder.pid}")
            does(f"ip addr add 10.9.{number}.1/24 dev out{number}")
            does(f"ip link set out{number} up")
            does(f"tc qdisc add dev out{number} {shape}")
            does(f"{within} ip link set lo up")
            does(f"{within} ip addr add 10.9.{number}.2/24 dev in{number}")
            does(f"{within} ip link set in{number} up")
            does(f"{within} tc qdisc add dev in{number} {shape}")
        yield inside
    finally:
        for holder in holders:
            holder.kill()
            holder.wait()


def relay(port: int, here: str, there: str, delay: float) -> None:
    """Pass on what comes to a port at one address to the same port at another, a while later."""
    listening = socket.create_server((here, port))
    while True:
        come, _ = listening.accept()
        try:
            gone = socket.create_connection((there, port))
        except OSError:  # the server is not up yet
            come.close()
            continue
        for ends in ((come, gone), (gone, come)):
            ends[0].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            waiting: Waiting = queue.SimpleQueue()
            for step, end in ((_take, ends[0]), (_give, ends[1])):
                threading.Thread(target=step, args=(end, waiting, delay), daemon=True).start()


def _take(source: socket.socket, waiting: Waiting, delay: float) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 18):
            waiting.put((time.monotonic() + delay, data))
    waiting.put((time.monotonic() + delay, b""))


def _give(sink: socket.socket, waiting: Waiting, _: float) -> None:
    with contextlib.suppress(OSError):
        while True:
            due, data = waiting.get()
            time.sleep(max(0.0, due - time.monotonic()))
            if not data:
                sink.shutdown(socket.SHUT_WR)
                return
            sink.sendall(data)


# The federation


def configuration(folder: Path, method: Any, seed: int, epochs: int) -> RunConfig:
    """Return the configuration of a run."""
    sources = {name: {"source": f"{name}.csv"} for name in (HOLDS, *PARTIES)}
    aligned = folder / "aligned"
    return parse_config(
        {
            "data": {
                "id": "ID",
                "folder": str(folder),
                "parties": sources,
                "labels": {"source": "labels.csv", "column": "default.payment.next.month"},
                "split": {"validation": 0.15, "test": 0.15},
                **({"alignment": str(aligned)} if aligned.is_dir() else {}),
            },
            "label_holder": {"name": HOLDER, "holds": HOLDS},
            "model": {
                "bottom": {"widths": [256, 256], "activation": "relu"},
                "top": {"widths": []},
            },
            "optimiser": {"name": "adagrad", "lr": 0.03},
            "method": method,
            "training": {
                **{"epochs": epochs, "batch_size": 4096, "seed": seed},
                "early_stopping": None,
            },
        }
    )


@contextmanager
def federation(folder: Path, out: Path) -> Iterator[Local]:
    """Let the federation be up, each company behind its link."""
    tables, labels = credit_tables()
    for name, table in {**tables, "labels": labels}.items():
        table.write_csv(folder / f"{name}.csv")
    config = configuration(folder, "svfl", 0, 1)
    meeting, organisations = aligning(config)
    carry_out(config, meeting, organisations, folder / "aligned", lambda *_: None)
    with linked(PARTIES) as inside, local_federation(folder / "flare", PARTIES) as local:
        for name in EVERYBODY:
            own = folder / name / "aligned"
            own.mkdir(parents=True)
            shutil.copy(folder / "aligned" / f"{name}.json", own)
            site = local.site(name if name in PARTIES else SERVER)
            there = {"alignment": own, "runs": (out / name).absolute(), "folder": folder}
            write_site(config, name, site, **there)
        relays = [
            each
            for number, name in enumerate(PARTIES)
            for each in _behind(local.folder / name / "startup", inside[name], f"10.9.{number}.1")
        ]
        try:
            local.start(PARTIES)
            yield local
        finally:
            for each in relays:
                each.kill()
                each.wait()


def _behind(startup: Path, within: str, address: str) -> Iterator[subprocess.Popen[bytes]]:
    """Let a site be started behind its link; yield the relays at its end and at the server's."""
    port = (startup / "fed_client.json").read_text().partition(f"{SERVER}:")[2].split('"')[0]
    (startup / "sub_start.sh").rename(startup / "sub_start_inside.sh")
    beside = f'exec {within} bash "{startup / "sub_start_inside.sh"}" "$@"\n'
    (startup / "sub_start.sh").write_text(beside)
    own = [sys.executable, __file__, "--relay", port]
    yield subprocess.Popen([*within.split(), *own, "127.0.0.1", address, str(DELAY)])
    yield subprocess.Popen([*own, address, "127.0.0.1", "0"])  # where alone the server listens


# What came of it


def best(run: Run) -> float:
    """Return the best value of the metric on the validation rows."""
    return float(run.history[run.summary["metric"]].max())  # type: ignore[arg-type]


def seconds_to(run: Run, target: float) -> float | None:
    """Return the seconds after which a run had reached a target; None if it did not."""
    history = run.history
    for seconds, value in zip(history["seconds"], history[run.summary["metric"]], strict=True):
        if value >= target:
            return float(seconds)
    return None


def told(run: Run, vanilla: Run) -> str:
    """Return a run in a line, beside vanilla's of the same seed."""
    reached = []
    for below in BELOW:
        target = best(vanilla) - below
        seconds, usual = seconds_to(run, target), seconds_to(vanilla, target)
        faster = (
            "" if seconds is None or usual is None else f"{seconds:.1f} s, {usual / seconds:.2f} x"
        )
        reached.append(f"{faster or 'not reached':>15}")
    summary = run.summary
    steps = max(summary["local_updates"].values()) / summary["rounds"]
    size = (summary["bytes_up"] + summary["bytes_down"]) / summary["rounds"] / 1e6
    spent = 1000 * summary["seconds_training"] / summary["rounds"]
    each = f"{size:.2f} MB, {spent:.0f} ms and {steps:.1f} local steps a round"
    return f"best {100 * best(run):.2f} %, {' '.join(reached)}   {each}"


def main() -> None:
    """Train what is not there, and print a row for each run."""
    if sys.argv[1:2] == ["--relay"]:
        relay(int(sys.argv[2]), sys.argv[3], sys.argv[4], float(sys.argv[5]))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="folder for the runs; else a temporary one")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--only", default="", help="methods in whose names this is, and vanilla")
    said = parser.parse_args()
    if INSIDE not in os.environ:
        enter()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was started is ended
    folder = Path(tempfile.mkdtemp(prefix="shaped-"))
    out = said.out or folder / "runs"
    print(f"{BITS / 1e6:.0f} Mbit/s and {2000 * DELAY:.0f} ms there and back for each company")
    try:
        with federation(folder, out) as local:
            for seed in range(said.seeds):
                vanilla = None
                for name, method in METHODS.items():
                    if said.only not in name and name != "vanilla":
                        continue
                    run = trained(local, folder, out, name, method, seed, said.epochs)
                    vanilla = vanilla or run
                    print(f"seed {seed}, {name:<21}{told(run, vanilla)}", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def trained(
    local: Local, folder: Path, out: Path, name: str, method: Any, seed: int, epochs: int
) -> Run:
    """Return a run, trained if it is not there."""
    called = f"{name.replace(', ', '-').replace(' ', '-')}-{seed}"
    if not (out / HOLDER / called / "summary.json").exists():
        config = configuration(folder, method, seed, epochs)
        job = folder / "jobs" / called
        write_job(job_of(config, called, "train", "server"), job)
        if not local.wait(local.submit(job)):
            sys.exit(f"{called} failed; see {local.folder}")
    return load_run(out / HOLDER / called)


if __name__ == "__main__":
    main()
