"""Hostile bodies again, with every index in compiled loops checked: one beyond an array is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from siege.attack import Attack, Found

__all__ = ["BOUNDS"]

_PROGRAM = """
import json, sys
from siege.bodies import BODIES
found = BODIES.run(int(sys.argv[1]), int(sys.argv[2]))
print(json.dumps([found.tried, found.held, found.broke]))
"""


def _run(trials: int, seed: int) -> Found:
    # What was compiled without checks would be taken from numba's usual place.
    with tempfile.TemporaryDirectory() as folder:
        checked = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": folder}
        path = {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent.parent), *sys.path])}
        ended = subprocess.run(
            [sys.executable, "-c", _PROGRAM, str(trials), str(seed)],
            env=os.environ | checked | path,
            capture_output=True,
            text=True,
        )
    if ended.returncode:
        found = Found()
        found.fail(f"the process ended with {ended.returncode}: {ended.stderr[-500:]}")
        return found
    tried, held, broke = json.loads(ended.stdout)
    return Found(tried, Counter(held), broke)


BOUNDS = Attack(
    "hostile bodies, indices checked",
    "as above, and no compiled loop looks beyond an array",
    100_000,
    _run,
)
