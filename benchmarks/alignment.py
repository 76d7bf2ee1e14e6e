"""Ids per second of a private alignment: two organisations, each in a process of its own.

    python benchmarks/alignment.py [IDS ...]

By default 10^5 and 10^6 ids at each of the two, of which half are in common. Seconds are those of
the whole alignment, of a real clock, from the start of the processes on; CPU seconds are of all
processes; memory is the largest of each organisation's process while it aligns, above what it took
with its ids read. Bytes are the bodies of both. A machine with fewer than two free cores takes
longer.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import polars as pl

from colonnade.drivers import Assignment, Elsewhere, Processes
from colonnade.roles.align import AlignLabelHolder, AlignParty, Meeting
from colonnade.secure import Secrets
from colonnade.tables.own_ids import OwnIds

MEETING = Meeting(("shop",), "bank")


def memory(field: str) -> int:
    """Return a number of bytes that Linux tells of this process."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def cast(name: str, count: int) -> AlignParty | AlignLabelHolder:
    first = 0 if name == "shop" else count // 2
    ids = pl.DataFrame({"id": [f"person-{n:012}" for n in range(first, first + count)]})
    own = OwnIds(name, {name: ids}, "id")
    del ids
    if name == "shop":
        role: AlignParty | AlignLabelHolder = AlignParty(MEETING, name, own, Secrets.system())
    else:
        role = AlignLabelHolder(MEETING, own, Secrets.system())
    role.memory = memory("VmRSS")  # type: ignore[union-attr]  # where it begins
    return role


def tell(folder: Path, role: AlignParty | AlignLabelHolder) -> None:
    assert role.places is not None
    grown = memory("VmHWM") - role.memory  # type: ignore[union-attr]
    told = {"common": len(role.places), "memory": grown}
    (folder / role.name).write_text(json.dumps(told), encoding="utf-8")


def main(counts: list[int]) -> None:
    for count in counts:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            roles = [
                Elsewhere(name, (other,), partial(cast, name, count), partial(tell, folder))
                for name, other in (("shop", "bank"), ("bank", "shop"))
            ]
            start = time.perf_counter()
            record = Processes().run(roles, Assignment(limits=MEETING.limits()))
            seconds = time.perf_counter() - start
            told = {name: json.loads((folder / name).read_text()) for name in ("shop", "bank")}
        assert all(each["common"] == count - count // 2 for each in told.values())
        sent = sum(entry.body_bytes for entry in record.ledger)
        print(
            f"{count:9,} ids each: {seconds:6.1f} s, {count / seconds:6,.0f} ids a second of each; "
            f"{record.seconds_cpu / count * 1e6:4.0f} us of CPU an id of each; "
            f"{sent / count:4.0f} bytes an id of each; memory "
            + ", ".join(f"{name} +{each['memory'] / 2**20:.0f} MiB" for name, each in told.items())
        )


if __name__ == "__main__":
    main([int(float(given)) for given in sys.argv[1:]] or [10**5, 10**6])
