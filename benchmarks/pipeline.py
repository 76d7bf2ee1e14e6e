"""A million rows by 40 columns, from Parquet to a trained model: where time and memory go.

    python benchmarks/pipeline.py [ROWS ...]

Two synthetic Parquet files of 20 columns each and one of labels; a configuration with bottoms of
widths 64 and 32, else with a configuration's defaults: five epochs, batches of 128, one thread. The
pipeline is everything that brings data to a bottom model: reading, aligning, dividing, fitting,
transforming, and taking each batch's rows. Overhead is the peak of the process's memory, less what
it had when everything was imported, less the features, labels and row numbers that training works
on: first of preparing, then of all.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EPOCHS = 5


def write(folder: Path, rows: int) -> None:
    import numpy as np
    import polars as pl

    random = np.random.default_rng(0)
    hidden = random.normal(size=rows)
    for party in ("bank", "shop"):
        columns = {"id": random.permutation(rows)}
        for i in range(18):
            noise = random.normal(size=rows)
            columns[f"{party}_{i}"] = (0.3 * hidden[columns["id"]] + noise).astype(np.float32)
        for count in (5, 12):
            names = pl.Series(random.integers(0, count, rows)).cast(pl.String)
            columns[f"{party}_category_{count}"] = names
        pl.DataFrame(columns).write_parquet(folder / f"{party}.parquet")
    labels = {"id": np.arange(rows), "label": (hidden > 0).astype(np.int8)}
    pl.DataFrame(labels).write_parquet(folder / "labels.parquet")


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(folder: Path) -> dict[str, float]:
    from colonnade import models
    from colonnade.config import parse_config
    from colonnade.models import learner
    from colonnade.roles import split
    from colonnade.uplinks import plain

    spent = 0.0
    take = learner.take

    def timed(*arguments: object) -> object:
        nonlocal spent
        start = time.process_time()
        result = take(*arguments)  # type: ignore[arg-type]
        spent += time.process_time() - start
        return result

    for module in (models, split, plain):
        module.take = timed  # type: ignore[attr-defined]
    config = parse_config(
        {
            "data": {
                "name": "tables",
                "id": "id",
                "folder": str(folder),
                "parties": {name: {"source": f"{name}.parquet"} for name in ("bank", "shop")},
                "labels": {"source": "labels.parquet", "column": "label"},
            },
            "model": {"bottom": {"widths": [64, 32]}},
            "training": {"epochs": EPOCHS},
        }
    )
    before, start = peak(), time.process_time()
    data = config.data.load()
    prepared = time.process_time() - start
    federation = config.build_federation(data)
    size = sum(f.nbytes for f in data.features.values()) + data.labels.nbytes
    size += data.train.nbytes + data.validation.nbytes + data.test.nbytes
    loaded = peak() - before - size
    start = time.process_time()
    run = config.train(federation=federation)
    trained = time.process_time() - start
    return {
        "rows": len(data.labels),
        "prepare_s": prepared,
        "take_s": spent,
        "train_s": trained - spent,
        "share": (prepared + spent) / (prepared + trained),
        "size": size,
        "loaded": loaded,
        "overhead": peak() - before - size,
        "auc": run.summary["test"]["auc"],
    }


def main() -> None:
    counts = [int(count) for count in sys.argv[1:]] or [250_000, 1_000_000]
    print("rows       pipeline (prepare + take)  training   share   data     overhead    test AUC")
    for rows in counts:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            write(folder, rows)
            command = [sys.executable, __file__, "--measure", name]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        m = json.loads(done.stdout)
        print(
            f"{rows:>9,}  {m['prepare_s']:8.1f} s + {m['take_s']:.1f} s"
            f"      {m['train_s']:8.1f} s  {m['share']:6.1%}  {m['size'] / 1e6:5.0f} MB"
            f"  {m['loaded'] / 1e6:4.0f}, {m['overhead'] / 1e6:4.0f} MB  {m['auc']:.3f}"
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measure(Path(sys.argv[2]))))
    else:
        main()
