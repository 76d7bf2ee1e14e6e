"""How defaults were chosen: candidates on the half of the data sets that is for it.

Each candidate is the default estimator with what is said changed. Rows that a table shows are the
means over seeds; rounds are how many were trained, the way a WAN counts. The reported half is not
looked at: ``colonnade reproduce defaults`` is for that.

    COLONNADE_DATA=FOLDER python benchmarks/defaults.py [--seeds N] [--sets A,B] [CANDIDATE ...]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

from colonnade.experiments.default_sets import CHOOSING
from colonnade.experiments.experiment import Experiment, Findings, Scale
from colonnade.experiments.reproducing import reproduce
from colonnade.experiments.untuned import joint_score, untuned_trial
from colonnade.training import Watcher

CANDIDATES = {
    "defaults": {},
    "no layer on top": {"top": ()},
    "top 64": {"top": (64,)},
    "relu": {"activation": "relu"},
    "gelu": {"activation": "gelu"},
    "rate .003": {"learning_rate": 3e-3},
    "dropout .2": {"dropout": 0.2},
    "patience 5": {"patience": 5},
    "batches of 128": {"batch_size": 128},
    "one layer": {"hidden": (32,)},
}


def main() -> None:
    """Print a row for each data set: each candidate's score and rounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("candidates", nargs="*", default=list(CANDIDATES))
    parser.add_argument("--seeds", type=int, help="by default as many as the set says")
    parser.add_argument("--sets", help="names, by default all")
    said = parser.parse_args()
    chosen = said.sets.split(",") if said.sets else [each.name for each in CHOOSING]
    print(f"{'':14}", *(f"{name:>20}" for name in said.candidates))
    for each in CHOOSING:
        if each.name not in chosen:
            continue
        cells = []
        for name in said.candidates:
            scores, rounds = [], []
            for seed in range(said.seeds or each.seeds):
                result = trained(each, seed, name)
                scores.append(joint_score(each, result))
                rounds.append(result.run.summary["rounds"])
            cells.append(f"{statistics.fmean(scores):.3f} in {statistics.fmean(rounds):5.0f}")
        print(f"{each.name:14}", *(f"{cell:>20}" for cell in cells), flush=True)


def trained(table_set, seed, name):
    """Return the result of a candidate."""
    found = []
    trial = untuned_trial(table_set, seed, None, name, CANDIDATES[name], compared=False)
    collect = Experiment(
        *("choosing", "", "", ()),
        trials=lambda scale: [trial],
        findings=lambda results: found.extend(results.of(*trial.label)) or Findings([]),
    )
    with tempfile.TemporaryDirectory() as folder:
        reproduce(collect, Scale(), Path(folder), lambda name: Watcher())
    return found[0]


if __name__ == "__main__":
    main()
