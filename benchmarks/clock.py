"""Whether the simulator's clock can be believed: its seconds a round beside those of a real link.

``Processes`` trains over a loopback interface that really carries 300 Mbit/s, in a namespace of its
own, with a relay between the two organisations that really delays what it passes on. ``Simulate``
predicts the same with the modelled channel and the work that it measures. One party of a layer, a
label holder with a linear top; vanilla and CELU-VFL; embeddings of 1 and of 4 MB.

    python benchmarks/clock.py            # as root, where the kernel has namespaces and tbf

Prints seconds a round, real and predicted, and the error; exit code 1 if one is above 10 %.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import socket
import subprocess
import sys
import time
from collections import deque
from functools import partial
from select import select
from unittest.mock import patch

import torch
from torch import nn

import colonnade as cn
from colonnade.drivers import processes

RATE, DELAY = 300e6, 0.010
WIDTH, ROUNDS = 256, 24
INSIDE = "COLONNADE_SHAPED"


def enter() -> None:
    """Go on in a namespace whose loopback is shaped; exit with the reason where that cannot be."""
    shape = f"ip link set lo up && tc qdisc add dev lo root tbf rate {RATE:.0f}bit"
    shape += " burst 131072 latency 400ms"
    if not all(map(shutil.which, ("unshare", "ip", "tc"))):
        sys.exit("unshare, ip and tc are needed, of util-linux and iproute2: nothing was measured")
    tried = subprocess.run(["unshare", "-n", "sh", "-c", shape], capture_output=True, text=True)
    if tried.returncode:
        sys.exit(f"no shaped network here ({tried.stderr.strip()}): nothing was measured")
    again = f"{shape} && exec {sys.executable} {' '.join(sys.argv)}"
    os.execvpe("unshare", ["unshare", "-n", "sh", "-c", again], os.environ | {INSIDE: "1"})


def relay(one: socket.socket, other: socket.socket) -> None:
    """Pass on what either sends, a delay later."""
    ends = {one: other, other: one}
    under_way: dict[socket.socket, deque[tuple[float, bytes]]] = {one: deque(), other: deque()}
    open_ends = set(ends)
    while open_ends or any(under_way.values()):
        due = [queue[0][0] for queue in under_way.values() if queue]
        wait = max(0.0, min(due) - time.monotonic()) if due else None
        ready, _, _ = select(list(open_ends), [], [], wait)
        for end in ready:
            part = end.recv(1 << 18)
            if part:
                under_way[ends[end]].append((time.monotonic() + DELAY, part))
            else:
                open_ends.discard(end)
        for end, queue in under_way.items():
            while queue and queue[0][0] <= time.monotonic():
                end.sendall(queue.popleft()[1])


def delayed_pair() -> tuple[socket.socket, socket.socket]:
    """Return two ends of a connection that passes the shaped interface once, and the relay."""
    with socket.create_server(("127.0.0.1", 0), backlog=1) as listener:
        one = socket.create_connection(listener.getsockname())
        inner, _ = listener.accept()
    outer, other = socket.socketpair()
    for end in (one, inner):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    context = multiprocessing.get_context("fork")
    context.Process(target=relay, args=(inner, outer), daemon=True).start()
    inner.close()
    outer.close()
    return one, other


def federation(batch: int) -> cn.Federation:
    """Return a party with a layer, and a label holder."""
    generator = torch.Generator().manual_seed(0)
    rows = batch * ROUNDS
    x = torch.randn(rows, 32, generator=generator)
    labels = torch.randint(2, (rows,), generator=generator)
    adagrad = partial(torch.optim.Adagrad, lr=0.01)
    torch.manual_seed(0)
    party = cn.Party("bank", x, nn.Linear(32, WIDTH), adagrad)
    holder = cn.LabelHolder("registry", labels, nn.Linear(WIDTH, 2), optimiser=adagrad)
    return cn.Federation([party], holder, range(rows))


def main() -> None:
    """Print the table, and say by the exit code whether the clock holds."""
    if INSIDE not in os.environ:
        enter()
    network = cn.Network(cn.Channel(bandwidth=RATE, latency=DELAY))
    print(f"{RATE / 1e6:.0f} Mbit/s, {1000 * DELAY:.0f} ms each way, {ROUNDS} rounds")
    print(f"{'method':>8} {'bytes':>8} {'real':>10} {'predicted':>10} {'error':>7}  local steps")
    worst = 0.0
    for batch in (1024, 4096):
        for method in (cn.methods.svfl(), cn.methods.celu(5, 5, 0.5)):
            training = cn.Training(epochs=1, batch_size=batch)
            with patch.object(processes, "connected_pair", delayed_pair):
                shaped = federation(batch).train(method, training, cn.Processes(), report=False)
            driver = cn.Simulate(network)
            runs = [shaped, federation(batch).train(method, training, driver, report=False)]
            real, predicted = (run.summary["seconds_training"] / ROUNDS for run in runs)
            error = predicted / real - 1
            worst = max(worst, abs(error))
            steps = " and ".join(str(run.summary["local_updates"]["bank"]) for run in runs)
            size = f"{batch * WIDTH * 4 / 1e6:.1f} MB"
            times = f"{real:>8.3f} s {predicted:>8.3f} s {error:>+7.1%}"
            print(f"{method.name:>8} {size:>8} {times}  {steps}", flush=True)
    sys.exit(worst > 0.1)


if __name__ == "__main__":
    main()
