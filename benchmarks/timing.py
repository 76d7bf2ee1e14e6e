"""How the benchmarks measure: CPU time of one thread, medians, contenders taking turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping


def cpu_seconds(contenders: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Return the median CPU seconds of each function, run in turn ``repeats`` times.

    Taking turns lets every contender meet the same drift of a shared machine. One round before
    the first is not counted.
    """
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for repeat in range(repeats + 1):
        for name, function in contenders.items():
            start = time.process_time()
            function()
            if repeat:
                times[name].append(time.process_time() - start)
    return {name: statistics.median(values) for name, values in times.items()}
