"""Try Colonnade over NVIDIA FLARE for real: every method, faults, members that lie.

python benchmarks/sites                    # everything, half an hour
python benchmarks/sites methods            # or faults, members
python benchmarks/sites methods --only celu
"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from sites.faults import faults
from sites.members import members
from sites.methods import methods

TRIALS = {"methods": methods, "faults": faults, "members": members}


def main() -> int:
    """Try what was named."""
    parser = argparse.ArgumentParser(prog="python benchmarks/sites", description=__doc__)
    parser.add_argument("trials", nargs="*", metavar="trials", help=", ".join(TRIALS))
    parser.add_argument("--only", default="", help="those in whose names this is")
    said = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was started is ended
    broke = 0
    for name in said.trials or TRIALS:
        for row in TRIALS[name](said.only):
            broke += not row.held
            print(row, flush=True)
    return 1 if broke else 0


if __name__ == "__main__":
    sys.exit(main())
