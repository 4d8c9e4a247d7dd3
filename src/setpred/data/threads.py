"""Work for all cores that leaves Python's lock free, such as decoding images or rendering them."""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

Argument = TypeVar("Argument")
Result = TypeVar("Result")


def in_threads(
    work: Callable[[Argument], Result], arguments: Iterable[Argument], workers: int | None = None
) -> Iterator[Result]:
    """`map(work, arguments)` over the cores, in order.

    Only a few results are held at a time, however many arguments there are.
    """
    workers = workers or os.cpu_count() or 1
    waiting = iter(arguments)
    with ThreadPoolExecutor(workers) as pool:
        pending = [pool.submit(work, argument) for argument in islice(waiting, 4 * workers)]
        while pending:
            yield pending.pop(0).result()
            pending += [pool.submit(work, argument) for argument in islice(waiting, 1)]
