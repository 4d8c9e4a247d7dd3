"""YAML from strangers: plain values or a sentence, whatever the text would like to be."""

from typing import Any

import yaml

DEPTH = 8


def read_yaml(text: bytes | str) -> Any:
    """The values in a YAML text; anything that is not plain values is a `ValueError`.

    >>> read_yaml("size: 3")
    {'size': 3}
    >>> read_yaml("[1, 2")
    Traceback (most recent call last):
    ValueError: line 1: not YAML (expected ',' or ']', but got '<stream end>'): correct it
    """
    try:
        # A few lines of aliases or brackets can cost gigabytes or minutes, so they are refused first.
        depth = 0
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if isinstance(event, yaml.AliasEvent) or depth > DEPTH:
                raise yaml.MarkedYAMLError(problem="aliases or deep nesting", problem_mark=event.start_mark)
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}: " if mark is not None else ""
        reason = " ".join((getattr(error, "problem", None) or "wrong characters").split())
        raise ValueError(f"{place}not YAML ({reason}): correct it") from None
    except (TypeError, LookupError, AttributeError, ValueError) as error:
        # PyYAML lets these through for tagged values, dates and numbers that it cannot make.
        raise ValueError(f"not YAML ({type(error).__name__} in a value): write plain values") from None
