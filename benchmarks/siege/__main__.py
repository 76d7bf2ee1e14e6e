"""Besiege the library, and print what held.

python benchmarks/siege             # everything, hours
python benchmarks/siege --share 0.01 messages
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from siege.attacks import ATTACKS


def main() -> int:
    """Run the attacks that were named."""
    parser = argparse.ArgumentParser(prog="python benchmarks/siege", description=__doc__)
    parser.add_argument("attacks", nargs="*", metavar="attack", help=", ".join(ATTACKS))
    parser.add_argument("--share", type=float, default=1.0, help="of the full siege's trials")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    print(f"{'attack':40} {'tried':>9} {'held':>9} {'broke':>6}  seconds")
    broke = 0
    for name in arguments.attacks or ATTACKS:
        attack, begun = ATTACKS[name], time.monotonic()
        found = attack.run(max(1, round(attack.trials * arguments.share)), arguments.seed)
        held, failed = sum(found.held.values()), len(found.broke)
        broke += failed
        took = time.monotonic() - begun
        print(f"{attack.name:40} {found.tried:9,} {held:9,} {failed:6,}  {took:.0f}", flush=True)
        for how, count in found.held.most_common():
            print(f"    {how}: {count:,}")
        for what in found.broke[:20]:
            print(f"    BROKE {what}")
    return 1 if broke else 0


if __name__ == "__main__":
    sys.exit(main())
