"""What other libraries tell people who did not ask."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet(*loggers: str, warned_by: str = "") -> Iterator[None]:
    """Hear only errors of these loggers, and no warnings from modules whose names begin like that."""
    named = [logging.getLogger(name) for name in loggers]
    levels = [logger.level for logger in named]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=warned_by)
        for logger in named:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(named, levels, strict=True):
                logger.setLevel(level)
