"""Hostile bodies again, with every index in compiled loops checked: one beyond an array is told."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from siege.attack import Attack, Found
from siege.bodies import honest_bodies

__all__ = ["BOUNDS"]

_PROGRAM = """
import base64, json, sys
from siege.bodies import read_hostile
bodies = [body and base64.b64decode(body) for body in json.load(sys.stdin)]
found = read_hostile(int(sys.argv[1]), int(sys.argv[2]), bodies)
print(json.dumps([found.tried, found.held, found.broke]))
"""


def _run(trials: int, seed: int) -> Found:
    # What was compiled without checks would be taken from numba's usual place.
    # What reads is compiled again, with checks; what writes was written without.
    honest = [body and base64.b64encode(body).decode() for body in honest_bodies()]
    with tempfile.TemporaryDirectory() as folder:
        checked = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": folder}
        path = {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent.parent), *sys.path])}
        ended = subprocess.run(
            [sys.executable, "-c", _PROGRAM, str(trials), str(seed)],
            env=os.environ | checked | path,
            input=json.dumps(honest),
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
