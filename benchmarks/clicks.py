"""Click logs larger than memory: how fast they are encoded, in what memory, and a round's price.

    python benchmarks/clicks.py [ROWS ...]

SYNTHETIC clicks of Criteo's 39 columns are written as text, by default 250,000 and 1,000,000
rows, at least 240,000, and encoded; then split training of both companies from the store, batches
of 4096, bottoms of two layers of 256 over embeddings of 16, AdaGrad, one thread.

Memory is sampled from /proc/self/status while the work is done, above what the process had before:
anonymous, which is the program's own, and of files, which the system takes back when it needs it.
What must grow with rows: the row numbers of training, validation and test, of which the batches of
an epoch are a permutation. The price of a round is CPU time per round, more rounds less fewer, of
Colonnade's simulator and of a plain torch loop over the same batches with the same models and
optimisers, taking turns.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

BATCH, FEW, MANY, REPEATS = 4096, 4, 16, 3
FEWEST = 240_000  # of fewer rows memory and time are mostly those of the program itself


def memory() -> dict[str, float]:
    """Return resident bytes: anonymous, and of files."""
    lines = Path("/proc/self/status").read_text().splitlines()
    kinds = {line.split(":")[0]: line.split()[1] for line in lines if line.startswith("Rss")}
    return {kind: int(kinds[kind]) * 1024 for kind in ("RssAnon", "RssFile")}


class Peak:
    """The most memory that was resident while this was open, above what was before."""

    def __enter__(self) -> Peak:
        self._before, self._over = memory(), threading.Event()
        self.bytes = dict.fromkeys(self._before, 0.0)
        self._thread = threading.Thread(target=self._sample)
        self._thread.start()
        return self

    def _sample(self) -> None:
        while True:
            over = self._over.wait(0.005)
            for kind, now in memory().items():
                self.bytes[kind] = max(self.bytes[kind], now - self._before[kind])
            if over:
                return

    def __exit__(self, *what: object) -> None:
        self._over.set()
        self._thread.join()


def encode(folder: Path) -> dict[str, float]:
    from colonnade.datasets import criteo, synthetic_clicks

    synthetic_clicks(rows=1000, store=folder / "warm")  # kernels are compiled or loaded
    (file,) = folder.glob("*synthetic.tsv")
    encoding = dict.fromkeys(memory(), 0.0)

    def told(done: int, total: int) -> None:  # until the last block: rows are divided after that
        encoding.update(peak.bytes)

    with Peak() as peak:
        start = time.process_time()
        criteo(folder, files=[file.name], store=folder / "store", told=told)
        seconds = time.process_time() - start
    divided = {f"divided {kind}": value for kind, value in peak.bytes.items()}
    return encoding | divided | {"seconds": seconds, "bytes": file.stat().st_size}


def train(folder: Path) -> dict[str, float]:
    import torch

    from colonnade.batches import BatchPlan
    from colonnade.datasets import criteo
    from colonnade.federation import Federation
    from colonnade.models import Tabular, take
    from colonnade.organisations import LabelHolder, Party
    from colonnade.training import Training

    torch.set_num_threads(1)
    (file,) = folder.glob("*synthetic.tsv")

    def federation() -> Federation:
        data = criteo(folder, files=[file.name], store=folder / "store")
        torch.manual_seed(0)
        sizes = data.transformers["categories"].cardinalities
        bottoms = Tabular(0, sizes, [256, 256], embedding=16), Tabular(13, (), [256, 256])
        return Federation(
            [Party("categories", data.features["categories"], bottoms[0], adagrad)],
            LabelHolder(
                "counts",
                data.labels,
                torch.nn.Linear(512, 2),
                features=data.features["counts"],
                bottom=bottoms[1],
                optimiser=adagrad,
            ),
            data.train,
        )

    def adagrad(parameters: object) -> torch.optim.Optimizer:
        return torch.optim.Adagrad(parameters, lr=0.01)  # type: ignore[arg-type]

    def ours(f: Federation, rounds: int) -> None:
        f.train(training=Training(epochs=1, batch_size=BATCH), stop_before=rounds)

    def plain(f: Federation, rounds: int) -> None:
        party = f.parties[0].learner()
        top, own = f.label_holder.learners()
        assert own is not None
        assert f.label_holder.features is not None
        batches = BatchPlan(f.train_rows, BATCH, 1, 0)
        for round in range(rounds):
            rows = batches.rows(round)
            one = party(take(f.parties[0].features, rows), True)
            other = own(take(f.label_holder.features, rows), True)
            outputs = top(torch.cat([one, other], 1), True)
            labels = f.label_holder.labels[torch.from_numpy(rows)]
            torch.nn.functional.cross_entropy(outputs, labels).backward()
            for learner in (party, own, top):
                learner.step()

    def seconds(what: Callable[[Federation, int], None], f: Federation) -> float:
        spent = []
        for rounds in (FEW, MANY):
            start = time.process_time()
            what(f, rounds)
            spent.append(time.process_time() - start)
        return (spent[1] - spent[0]) / (MANY - FEW)

    with Peak() as peak:
        f = federation()
    prepared = peak.bytes
    with Peak() as peak:
        ours(f, FEW)
    times: dict[str, list[float]] = {"ours": [], "plain": []}
    for _ in range(REPEATS):
        times["plain"].append(seconds(plain, f))
        times["ours"].append(seconds(ours, f))
    result = {name: statistics.median(values) for name, values in times.items()}
    result["ratio"] = statistics.median(
        a / b for a, b in zip(times["ours"], times["plain"], strict=True)
    )
    return (
        result
        | {f"preparing {kind}": value for kind, value in prepared.items()}
        | {f"training {kind}": value for kind, value in peak.bytes.items()}
        | {"train rows": len(f.train_rows)}
    )


def alone(what: str, folder: Path) -> dict[str, float]:
    """Measure in a process of its own, whose memory is nobody else's."""
    command = [sys.executable, __file__, f"--{what}", str(folder)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: dict[str, float] = json.loads(output.splitlines()[-1])
    return found


def main() -> None:
    from colonnade.datasets import write_synthetic_clicks

    counts = [int(text) for text in sys.argv[1:]] or [250_000, 1_000_000]
    if min(counts) < FEWEST:
        sys.exit(f"figures of fewer than {FEWEST:,} rows tell nothing of more; take more rows")
    for rows in counts:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            start = time.process_time()
            write_synthetic_clicks(folder / "synthetic.tsv", rows)
            made = time.process_time() - start
            found = alone("encode", folder)
            mb = found["bytes"] / 1e6
            print(f"{rows:,} SYNTHETIC rows, {mb:.0f} MB of text, made in {made:.1f} s")
            print(f"  encoded in {found['seconds']:.1f} s: {mb / found['seconds']:.0f} MB/s")
            for what, which in (("encoding", ""), ("dividing, too", "divided ")):
                anonymous, mapped = found[f"{which}RssAnon"], found[f"{which}RssFile"]
                print(f"  memory of {what}: {_mib(anonymous)}, of files {_mib(mapped)}")
            found = alone("train", folder)
            for what in ("preparing", "training"):
                anonymous, mapped = found[f"{what} RssAnon"], found[f"{what} RssFile"]
                print(f"  memory of {what}: {_mib(anonymous)}, of files {_mib(mapped)}")
            print(
                f"  a round: {found['ours'] * 1e3:.0f} ms of CPU, of a plain loop "
                f"{found['plain'] * 1e3:.0f} ms; ratio {found['ratio']:.3f}",
                flush=True,
            )


def _mib(value: float) -> str:
    return f"{value / 2**20:.0f} MiB"


if __name__ == "__main__":
    if sys.argv[1:2] in (["--encode"], ["--train"]):
        print(json.dumps({"--encode": encode, "--train": train}[sys.argv[1]](Path(sys.argv[2]))))
    else:
        main()
