"""Times that can be compared: all ways in turn, again and again, in one process."""

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any


def interleaved(
    ways: Mapping[str, Callable[[], Any]], seconds: float, wait: Callable[[], Any] = lambda: None
) -> dict[str, float]:
    """The median time of each way in milliseconds.

    The ways run in turn until the time is up, so that a noisy machine hurts all alike. `wait` returns when a device has
    done what it was asked for.

    >>> sorted(interleaved({"a": lambda: None, "b": lambda: None}, seconds=0.01))
    ['a', 'b']
    """
    times: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        way()  # compiles and warms the caches
    wait()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(next(iter(times.values()))) < 3:
        for name, way in ways.items():
            started = time.perf_counter()
            way()
            wait()
            times[name].append(time.perf_counter() - started)
    return {name: 1000 * statistics.median(found) for name, found in times.items()}
