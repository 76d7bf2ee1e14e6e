"""The demo: four parties with a quarter of each digit, trained several ways.

5000 real handwritten digits are cut into quadrants; each party sees one, a fifth organisation has
the labels. The same model is trained with exact messages and with ever fewer bits for each number,
and once more with every organisation in a process of its own, which must give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from colonnade.config import RunConfig, parse_config
from colonnade.reports import draw_comparison, write_comparison
from colonnade.runs import Run
from colonnade.training import Watcher

__all__ = ["REAL", "SIMULATED", "VARIANTS", "demo_config", "run_demo", "same_bits"]

REAL = "4 up, 8 down, 5 processes"
SIMULATED = "4 bits up, 8 down"

VARIANTS: dict[str, dict[str, Any]] = {
    "float32": {},
    "bfloat16": {
        "method": {"embedding": {"codec": "float", "format": "bf16"}},
    },
    "8 bits up": {"method": {"embedding": {"codec": "scalar", "bits": 8}}},
    SIMULATED: {
        "method": {
            "embedding": {"codec": "scalar", "bits": 4},
            "derivative": {"codec": "scalar", "bits": 8},
        }
    },
    "2 bits up, 4 down": {
        "method": {
            "embedding": {"codec": "scalar", "bits": 2},
            "derivative": {"codec": "scalar", "bits": 4},
        }
    },
    REAL: {
        "method": {
            "embedding": {"codec": "scalar", "bits": 4},
            "derivative": {"codec": "scalar", "bits": 8},
        },
        "driver": "processes",
        "network": {},  # a real one
    },
}


def demo_config(name: str) -> RunConfig:
    """Return the configuration of a variant."""
    base = {
        "data": {"name": "mnist5k", "partition": "quadrants", "parties": 4},
        "model": {"bottom": {"widths": [64], "activation": "sigmoid"}, "top": {"widths": []}},
        "optimiser": {"name": "adam", "lr": 3e-3},
        "training": {"epochs": 10, "batch_size": 128},
        "network": {"bandwidth": "20 Mbit/s", "latency": "10 ms"},
    }
    return parse_config(base | VARIANTS[name])


def run_demo(out: Path, watch: Callable[[str], Watcher]) -> dict[str, Run]:
    """Train every variant into a folder of its own under ``out``, and draw them together."""
    runs = {}
    federation = None
    for name in VARIANTS:
        config = demo_config(name)
        # All variants share data, models and seed, so they share the federation.
        federation = federation or config.build_federation()
        folder = out / name.replace(",", "").replace(" ", "-")
        runs[name] = config.train(folder, watcher=watch(name), federation=federation)
        if not runs[name].summary["completed"]:
            break
    simulated = {name: run for name, run in runs.items() if name != REAL}
    title = "5000 digits, four parties"
    draw_comparison(simulated, out / "comparison.png", title)
    write_comparison(runs, out / "comparison.html", title)
    return runs


def same_bits(one: Run, other: Run) -> bool:
    """Whether two runs ended with the same parameters, bit for bit, having sent the same."""
    parameters = all(
        torch.equal(value, other.models[name][part].state_dict()[key])
        for name, parts in one.models.items()
        for part, module in parts.items()
        for key, value in module.state_dict().items()
    )
    return parameters and one.ledger.without_time() == other.ledger.without_time()
