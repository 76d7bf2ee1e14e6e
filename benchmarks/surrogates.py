"""Surrogate tables in memory and on a disk: resident memory, and rows a second.

    python benchmarks/surrogates.py [FOLDER]

Each line is a fresh process with one table of 256 components a row, its files in a temporary folder
under FOLDER (by default build/; a million rows of float32 kept on a disk may take 4 GB). A *fill*
adds to every row once, in shuffled batches of 4096, then makes a checkpoint's mark; a *sweep* does
so again, when every row is somewhere already. Resident memory is VmRSS, and its peak VmHWM, above
what the process had before it made the table, in MB of 10^6 bytes; that of a batch at work, about
30 MB, is in it. Small batches are 128 random rows. Times are the wall's: the disk is at work too.
What a mark takes is mostly what the disk takes to write the rows that changed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WIDTH = 256
ROWS = (250_000, 500_000, 1_000_000)
WAYS = [("memory", "float32"), ("memory", "float16"), ("disk", "float32"), ("disk", "float16")]


def resident(which: str) -> float:
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith(which))
    return int(line.split()[1]) * 1024 / 1e6


def measure(folder: Path, place: str, dtype: str, rows: int) -> dict[str, float]:
    import numpy as np
    import torch

    from colonnade.surrogates import Disk, Memory

    torch.set_num_threads(1)
    random = np.random.default_rng(0)
    storage = Memory(dtype) if place == "memory" else Disk(folder, dtype)

    def sweep(table, rows: int, batch: int) -> float:
        order = random.permutation(rows)
        change = torch.from_numpy(random.normal(size=(batch, WIDTH)).astype(np.float32))
        start = time.perf_counter()
        for first in range(0, rows, batch):
            some = order[first : first + batch]
            table.add(some, change[: len(some)])
        return time.perf_counter() - start

    def mark(table) -> float:
        start = time.perf_counter()
        table.state_dict()
        return time.perf_counter() - start

    warm = storage.table("warm-up", 8192, WIDTH)
    sweep(warm, 8192, 4096)
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten

    table = storage.table("bank", rows, WIDTH)
    result = {"fill": sweep(table, rows, 4096), "mark": mark(table)}
    result |= {"sweep": sweep(table, rows, 4096), "mark again": mark(table)}
    result |= {"resident": resident("VmRSS") - before, "peak": resident("VmHWM") - before}
    batches = [random.permutation(rows)[:128] for _ in range(200)]
    change = torch.ones(128, WIDTH)
    for name, use in {
        "read 128": table.read,
        "add 128": lambda some: table.add(some, change),
        "add 128 again": lambda some: table.add(some, change),
    }.items():
        start = time.perf_counter()
        for some in batches:
            use(some)
        result[name] = (time.perf_counter() - start) / len(batches)
    files = (path for path in folder.rglob("*") if path.is_file())
    result["disk"] = sum(path.stat().st_size for path in files) / 1e6
    return result


def main(parent: Path) -> None:
    print("add to every row, by 4096: seconds; 128 rows: milliseconds; MB of memory and of disk")
    columns = [
        "fill",
        "mark",
        "sweep",
        "mark",
        "read128",
        "add128",
        "again",
        "resident",
        "peak",
        "disk",
    ]
    print(f"{'':24}" + "".join(f"{column:>9}" for column in columns))
    parent.mkdir(exist_ok=True)
    for place, dtype in WAYS:
        for rows in ROWS:
            with tempfile.TemporaryDirectory(dir=parent) as folder:
                command = [sys.executable, __file__, folder, place, dtype, str(rows)]
                out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            r = json.loads(out)
            cells = [f"{r[key]:9.2f}" for key in ("fill", "mark", "sweep", "mark again")]
            cells += [f"{1e3 * r[f'{key}']:9.2f}" for key in ("read 128", "add 128")]
            cells += [f"{1e3 * r['add 128 again']:9.2f}"]
            cells += [f"{r[key]:9.0f}" for key in ("resident", "peak", "disk")]
            print(f"{place:7}{dtype:8}{rows:9,d}" + "".join(cells), flush=True)


if __name__ == "__main__":
    if len(sys.argv) == 5:
        folder, place, dtype, rows = sys.argv[1:]
        print(json.dumps(measure(Path(folder), place, dtype, int(rows))))
    else:
        main(Path(sys.argv[1] if len(sys.argv) > 1 else "build"))
