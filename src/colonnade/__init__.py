"""Colonnade: vertical federated learning, with every byte, second and epsilon accounted for.

The names below are the public interface; each comes from the module that defines it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from colonnade import (
        codecs,
        datasets,
        errors,
        methods,
        metrics,
        privacy,
        reports,
        streamed,
        tables,
    )
    from colonnade.agreement import Agreement, HolderSeat, PartySeat, Shared
    from colonnade.channels import Channel, Gateway, Network
    from colonnade.config import load_trained
    from colonnade.costs import Delayed, Measured, Modelled
    from colonnade.drivers import Elsewhere, Processes, Replay, Simulate
    from colonnade.effects import Role
    from colonnade.estimators import VerticalClassifier, VerticalRegressor
    from colonnade.exchanges import Asynchronous, EventDriven, Relay, Split
    from colonnade.export import load_part
    from colonnade.federation import Federation
    from colonnade.labelling import LabelForm
    from colonnade.layout import Layout
    from colonnade.links import Direct, ErrorFeedback, LearnedEntropy
    from colonnade.local_updates import Consecutive, Proximal, Replayed, Workset
    from colonnade.method import Method
    from colonnade.models import Concat, DotProduct, Max, Mean, Sum
    from colonnade.organisations import LabelHolder, Party
    from colonnade.partners import partner_values
    from colonnade.planning import plan
    from colonnade.run_read import load_run
    from colonnade.runs import Run
    from colonnade.stragglers import Deadline, Fastest, Wait
    from colonnade.surrogates import Disk, Memory
    from colonnade.training import EarlyStopping, Training, Watcher
    from colonnade.uplinks import Coded, Masked, Plain
    from colonnade.wire import Purpose

__version__ = "0.1.0"

__all__ = [
    "Agreement",
    "Asynchronous",
    "Channel",
    "Coded",
    "Concat",
    "Consecutive",
    "Deadline",
    "Delayed",
    "Direct",
    "Disk",
    "DotProduct",
    "EarlyStopping",
    "Elsewhere",
    "ErrorFeedback",
    "EventDriven",
    "Fastest",
    "Federation",
    "Gateway",
    "HolderSeat",
    "LabelForm",
    "LabelHolder",
    "Layout",
    "LearnedEntropy",
    "Masked",
    "Max",
    "Mean",
    "Measured",
    "Memory",
    "Method",
    "Modelled",
    "Network",
    "Party",
    "PartySeat",
    "Plain",
    "Processes",
    "Proximal",
    "Purpose",
    "Relay",
    "Replay",
    "Replayed",
    "Role",
    "Run",
    "Shared",
    "Simulate",
    "Split",
    "Sum",
    "Training",
    "VerticalClassifier",
    "VerticalRegressor",
    "Wait",
    "Watcher",
    "Workset",
    "codecs",
    "datasets",
    "errors",
    "load_part",
    "load_run",
    "load_trained",
    "methods",
    "metrics",
    "partner_values",
    "plan",
    "privacy",
    "reports",
    "streamed",
    "tables",
]

# Resolved on first use: torch takes seconds to import, and `colonnade --help` needs none of it.
_HOMES = {
    "colonnade.agreement": ("Agreement", "HolderSeat", "PartySeat", "Shared"),
    "colonnade.channels": ("Channel", "Gateway", "Network"),
    "colonnade.costs": ("Delayed", "Measured", "Modelled"),
    "colonnade.drivers": ("Elsewhere", "Processes", "Replay", "Simulate"),
    "colonnade.effects": ("Role",),
    "colonnade.estimators": ("VerticalClassifier", "VerticalRegressor"),
    "colonnade.exchanges": ("Asynchronous", "EventDriven", "Relay", "Split"),
    "colonnade.config": ("load_trained",),
    "colonnade.export": ("load_part",),
    "colonnade.federation": ("Federation",),
    "colonnade.labelling": ("LabelForm",),
    "colonnade.layout": ("Layout",),
    "colonnade.links": ("Direct", "ErrorFeedback", "LearnedEntropy"),
    "colonnade.local_updates": ("Consecutive", "Proximal", "Replayed", "Workset"),
    "colonnade.method": ("Method",),
    "colonnade.models": ("Concat", "DotProduct", "Max", "Mean", "Sum"),
    "colonnade.organisations": ("LabelHolder", "Party"),
    "colonnade.partners": ("partner_values",),
    "colonnade.planning": ("plan",),
    "colonnade.run_read": ("load_run",),
    "colonnade.runs": ("Run",),
    "colonnade.stragglers": ("Deadline", "Fastest", "Wait"),
    "colonnade.surrogates": ("Disk", "Memory"),
    "colonnade.training": ("EarlyStopping", "Training", "Watcher"),
    "colonnade.uplinks": ("Coded", "Masked", "Plain"),
    "colonnade.wire": ("Purpose",),
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'colonnade' has no attribute {name!r}")
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(module), name)
    return import_module(f"colonnade.{name}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
