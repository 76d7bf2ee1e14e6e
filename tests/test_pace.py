"""How much is under way on lines of any width, which nobody is told."""

from __future__ import annotations

import random
import threading
from collections import deque
from types import SimpleNamespace

import pytest

from colonnade.drivers import courier as room
from colonnade.drivers.courier import Courier


class Lines:
    """A server and sites whose datagrams wait in a queue each to leave, at so many bytes a second.

    The seconds are those of a clock of its own, which stands still until all that can be sent is.
    """

    def __init__(self, monkeypatch, rate, sites, latency=0.0, is_lost=lambda now: False):
        self.now, self.rate, self.names = 0.0, rate, ["server", *sites]
        self.latency, self.is_lost = latency, is_lost
        monkeypatch.setattr(room, "time", SimpleNamespace(monotonic=lambda: self.now))
        self.queues = {name: deque() for name in self.names}
        self.free = dict.fromkeys(self.names, 0.0)  # when each has carried what it has
        self.carried, self.got, self.lost = 0, dict.fromkeys(self.names, 0), []
        self.ends = {name: self.end(name) for name in self.names}
        for site in sites:
            self.ends["server"].admit(site, 2**30)
            self.ends[site].admit("server", 2**30)

    def end(self, own):
        def post(peer, datagram):
            self.free[own] = max(self.free[own], self.now) + len(datagram) / self.rate
            self.carried += len(datagram)
            if not self.is_lost(self.now):
                self.queues[own].append((self.free[own] + self.latency, peer, datagram))

        def got(_, frame):
            self.got[own] += len(frame)

        return Courier(post, got, lambda peer: self.lost.append((own, peer)), print)

    @staticmethod
    def wait_for(threads, size):
        """Let each send until it has to wait, however slowly its thread begins."""
        while any(thread.is_alive() and not out.is_full(size) for thread, out in threads):
            pass

    def carry(self, size, both):
        """Send to each site so many bytes, and from each where it is both ways."""
        ways = [("server", site) for site in self.names[1:]]
        ways += [(site, server) for server, site in ways] if both else []
        threads = [
            (threading.Thread(target=self.ends[own].send, args=(to, bytes(size)), daemon=True), out)
            for own, to in ways
            for out in [self.ends[own]._peers[to].outbound]
        ]
        for thread, _ in threads:
            thread.start()
        while any(thread.is_alive() or out.chunks for thread, out in threads) and not self.lost:
            self.wait_for(threads, size)
            self.now += 0.05
            for own, queue in self.queues.items():
                while queue and queue[0][0] <= self.now:
                    _, peer, datagram = queue.popleft()
                    self.ends[peer].receive(own, datagram)
            self.wait_for(threads, size)
            for end in self.ends.values():
                for peer, ways in end._peers.items():
                    end._look(peer, ways)
                end._give_up()
        for end in self.ends.values() if self.lost else ():
            end._closed.set()
            end._let_go()


@pytest.mark.parametrize(
    ("rate", "sites", "size", "both"),
    [
        (20e3, 1, 4 * 2**20, False),
        (200e3, 1, 16 * 2**20, False),
        (40e3, 1, 8 * 2**20, True),
        (20e3, 3, 2**20, False),
        (60e3, 10, 2**20, True),
        (2e3, 1, 2**18, False),
        (20e6, 20, 2**20, True),
    ],
)
def test_a_slow_line_carries_what_is_sent_about_once(monkeypatch, rate, sites, size, both):
    """Nobody is given up on it, and nothing waits that need not."""
    lines = Lines(monkeypatch, rate, [f"site {number}" for number in range(sites)])
    lines.carry(size, both)
    assert lines.lost == []
    assert lines.got == {
        name: size * (sites if name == "server" else 1) if both or name != "server" else 0
        for name in lines.names
    }
    assert lines.carried < 1.1 * sites * size * (1 + both) + 200e3 * sites
    assert lines.now < 1.2 * sites * size / rate + 10


@pytest.mark.parametrize("latency", [0.025, 6.0])
def test_a_long_line_is_filled(monkeypatch, latency):
    """Within a few ways there and back, as much is under way as may be."""
    lines = Lines(monkeypatch, 1e9, ["site"], latency)
    lines.carry(32 * 2**20, False)
    assert lines.lost == []
    assert lines.got["site"] == 32 * 2**20
    ways = 2 * latency + 0.1  # there and back, and until it is looked
    assert lines.now < (9 + 32 / 8) * ways
    assert lines.carried < 1.01 * 32 * 2**20


@pytest.mark.parametrize("share", [0.02, 0.1, 0.3])
def test_what_is_lost_is_soon_sent_again(monkeypatch, share):
    """That something was lost lets no less be under way, and what was lost with it goes at once."""
    draws = random.Random(0)
    lines = Lines(monkeypatch, 10e6, ["site"], 0.02, lambda now: draws.random() < share)
    lines.carry(20 * 2**20, False)
    assert lines.lost == []
    assert lines.got["site"] == 20 * 2**20
    assert lines.carried < 20 * 2**20 / (1 - share) ** 2 + 2**21
    assert lines.now < 2 + 400 * share


def test_a_line_that_stands_still_is_waited_for_no_longer_ever_after(monkeypatch):
    """A minute later, one chunk is lost, and sent again before its receiver is given up."""
    lost = iter([True])
    lines = Lines(monkeypatch, 1e6, ["site"], 0.02, lambda now: now > 100 and next(lost, False))
    lines.carry(1000, False)
    lines.free["server"] = lines.now + 31
    lines.carry(1000, False)
    lines.now = 101.0
    lines.carry(1000, False)
    assert lines.lost == []
    assert lines.got["site"] == 3000
    assert lines.now < 101 + 30 + 1


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("latency", [3.0, 20.0])
def test_nobody_who_is_there_is_given_up_where_much_is_lost_on_a_long_line(
    monkeypatch, latency, seed
):
    """A chunk was tried four times in the time in which a peer is given up."""
    draws = random.Random(seed)
    sites = [f"site {number}" for number in range(5)]
    lines = Lines(monkeypatch, 25e6, sites, latency, lambda now: draws.random() < 0.25)
    lines.carry(2 * 2**20, True)
    assert lines.lost == []
    assert lines.got == {name: 2 * 2**20 * (5 if name == "server" else 1) for name in lines.names}
