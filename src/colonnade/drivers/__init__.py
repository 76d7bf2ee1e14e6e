"""Drivers: how roles are run. The same roles run under each of them, to the same bits."""

from colonnade.drivers.account import Activity
from colonnade.drivers.driver import Assignment, Driver, RunRecord, Trace, checked_driver
from colonnade.drivers.elsewhere import Elsewhere
from colonnade.drivers.processes import Processes
from colonnade.drivers.replay import Replay
from colonnade.drivers.simulate import Simulate

__all__ = [
    "Activity",
    "Assignment",
    "Driver",
    "Elsewhere",
    "Processes",
    "Replay",
    "RunRecord",
    "Simulate",
    "Trace",
    "checked_driver",
]
