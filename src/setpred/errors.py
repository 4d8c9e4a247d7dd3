"""The error of a user's request: one line that says what is wrong, where, and what to do."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches


class UsageError(ValueError):
    """A request that cannot be fulfilled; the message is for the person who made it."""


class ExampleError(ValueError):
    """Something is wrong with one example of a batch, of which `example` is the number."""

    def __init__(self, text: str, example: int = 0):
        super().__init__(text)
        self.example = example


@contextmanager
def usage_errors(what: str = "") -> Iterator[None]:
    """Turn a `ValueError` of the library into a `UsageError` of one line, which may begin with `what` was tried."""
    try:
        yield
    except UsageError:
        raise
    except ValueError as error:
        raise UsageError(f"{what}: {str(error).splitlines()[0]}" if what else str(error)) from None


def unknown(kind: str, name: str, known: Iterable[str]) -> UsageError:
    """An error for a name that does not exist, with the nearest one that does.

    >>> str(unknown("model", "idpsn", ["dspn", "idspn"]))
    "unknown model 'idpsn': did you mean idspn? (there are dspn, idspn)"
    """
    known = list(known)
    near, name = get_close_matches(name, known, n=1), name if len(name) <= 60 else f"{name[:57]}..."
    hint = f"did you mean {near[0]}? (there are {', '.join(known)})" if near else f"there are {', '.join(known)}"
    return UsageError(f"unknown {kind} {name!r}: {hint}")
