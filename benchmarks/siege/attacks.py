"""All attacks, by the names that the command takes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from siege.attack import Attack
from siege.bodies import BODIES
from siege.bounds import BOUNDS
from siege.disks import DISKS
from siege.files import FILES
from siege.hostile_roles import MESSAGES, ROLES
from siege.kills import KILLS
from siege.late_answers import LATE_ANSWERS
from siege.long_runs import LONG_RUNS

__all__ = ["ATTACKS"]

ATTACKS: Mapping[str, Attack] = MappingProxyType(
    {
        "bodies": BODIES,
        "bounds": BOUNDS,
        "messages": MESSAGES,
        "roles": ROLES,
        "kills": KILLS,
        "files": FILES,
        "disks": DISKS,
        "long": LONG_RUNS,
        "late": LATE_ANSWERS,
    }
)
