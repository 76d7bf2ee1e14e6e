"""Put together what the finished trials of an experiment show, wherever they were computed.

    python benchmarks/together.py celu-ablation reproduce/celu-ablation

``colonnade reproduce`` does so when all trials have finished in one place. Where they ran on
several machines, gather their folders in ``runs/`` of one folder, without checkpoints if these are
large; where some have not run, the findings are of those that have, which their notes say. Writes
what ``colonnade reproduce`` writes.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

from colonnade.experiments import EXPERIMENTS, Scale, write_findings
from colonnade.experiments.experiment import Result
from colonnade.experiments.reproducing import findings_of
from colonnade.run_read import load_run


def main() -> None:
    """Read the trials that have finished, and write the findings."""
    name, out = sys.argv[1], Path(sys.argv[2])
    experiment = EXPERIMENTS[name]
    trials = experiment.trials(Scale())
    found, missing = [], []
    for trial in trials:
        folder = out / "runs" / trial.folder
        file = folder / "summary.json"
        if not (file.exists() and json.loads(file.read_text("utf-8"))["completed"]):
            missing.append(trial.name)
            continue
        probes = folder / "probes.json"
        seen = json.loads(probes.read_text("utf-8")) if probes.exists() else {}
        probed = {int(round): values for round, values in seen.items()}
        found.append((trial, Result(load_run(folder), probed)))
    findings = findings_of(experiment, found)
    if missing:
        told = f"Not run, of {len(trials)} trials: {'; '.join(missing)}."
        findings = replace(findings, notes=[*findings.notes, told])
    write_findings(experiment, Scale(), findings, out)
    print(f"{len(found)} of {len(trials)} trials, in {out}")


if __name__ == "__main__":
    main()
