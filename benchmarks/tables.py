"""From a Parquet file to features: CPU time of one thread, and memory beside input and output.

    python benchmarks/tables.py

The tables are synthetic: 32 columns of floats (a tenth of the values missing in one of them), 6 of
whole numbers, one category with 10 values and one with 1000, ids in random order; labels in a table
of their own, ids in another order. Each line is a fresh process. "stored" leaves the file on disk
and reads it a piece at a time (StoredTable); "in memory" reads it first (read_table). Overhead is
the peak of the process's memory, less what it had after a first small table, less input (tables in
memory) and output (features, ids, labels, rows of each part). It should not grow with columns, and
with rows only by the order of the ids and by single columns at work.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROWS = (250_000, 1_000_000, 2_000_000)


def write(folder: Path, rows: int) -> None:
    import numpy as np
    import polars as pl

    folder.mkdir(exist_ok=True)
    random = np.random.default_rng(0)
    columns = {"id": random.permutation(rows)}
    columns |= {f"float_{i}": random.normal(size=rows) for i in range(32)}
    columns["float_0"][random.random(rows) < 0.1] = np.nan
    columns |= {f"whole_{i}": random.integers(0, 1000, rows) for i in range(6)}
    names = {
        f"category_{count}": pl.Series(random.integers(0, count, rows)).cast(pl.String)
        for count in (10, 1000)
    }
    pl.DataFrame({**columns, **names}).write_parquet(folder / "table.parquet")
    labels = {"id": random.permutation(rows), "label": random.integers(0, 2, rows)}
    pl.DataFrame(labels).write_parquet(folder / "labels.parquet")


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(folder: Path, way: str) -> dict[str, float]:
    import polars as pl
    import torch

    from colonnade.tables import StoredTable, read_table, vertical_tables

    torch.set_num_threads(1)

    def table_of(folder: Path) -> StoredTable | pl.DataFrame:
        read = StoredTable if way == "stored" else read_table
        return read(folder / "table.parquet")

    small = read_table(folder / "small" / "labels.parquet")
    vertical_tables({"bank": table_of(folder / "small")}, small, id="id")
    before, start = peak(), time.process_time()
    table, labels = table_of(folder), read_table(folder / "labels.parquet")
    read = time.process_time()
    people = vertical_tables({"bank": table}, labels, id="id")
    made = time.process_time()
    features = people.features["bank"]
    known = features.nbytes + people.ids.estimated_size() + people.labels.nbytes
    known += people.train.nbytes + people.validation.nbytes + people.test.nbytes
    known += labels.estimated_size() + (0 if way == "stored" else table.estimated_size())
    return {
        "read": read - start,
        "made": made - read,
        "features": features.nbytes,
        "overhead": peak() - before - known,
    }


def main() -> None:
    print("     rows  way         read   make features      features   overhead")
    for rows in ROWS:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, __file__]
            subprocess.run([*command, "write", folder, str(rows)], check=True)
            subprocess.run([*command, "write", f"{folder}/small", "5000"], check=True)
            for way in ("stored", "in memory"):
                environment = {**os.environ, "POLARS_MAX_THREADS": "1"}
                output = subprocess.run(
                    [*command, "measure", folder, way],
                    check=True,
                    capture_output=True,
                    env=environment,
                ).stdout
                found = json.loads(output)
                features, overhead = (found[what] / 1e6 for what in ("features", "overhead"))
                print(
                    f"{rows:9,}  {way:9}  {found['read']:5.2f} s   {found['made']:8.2f} s"
                    f"   {features:8.0f} MB {overhead:7.0f} MB"
                )


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["write", folder, rows]:
            write(Path(folder), int(rows))
        case ["measure", folder, way]:
            print(json.dumps(measure(Path(folder), way)))
        case _:
            main()
