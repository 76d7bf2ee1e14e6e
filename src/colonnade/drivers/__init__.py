"""Drivers: how roles are run. The same roles run under each of them, to the same bits."""

from colonnade.drivers.driver import Activity, Assignment, Driver, RunRecord, Trace
from colonnade.drivers.processes import Processes
from colonnade.drivers.replay import Replay
from colonnade.drivers.simulate import Simulate

__all__ = [
    "Activity",
    "Assignment",
    "Driver",
    "Processes",
    "Replay",
    "RunRecord",
    "Simulate",
    "Trace",
]
