"""The small trained models that come with the playground."""

from functools import cache
from pathlib import Path

from ..errors import unknown
from ..predictor import SetPredictor

FOLDER = Path(__file__).parent / "models"


def names() -> list[str]:
    """Of the models there are."""
    return sorted(path.parent.name for path in FOLDER.glob("*/config.json"))


@cache
def pretrained(name: str) -> SetPredictor:
    """A model by its name: `points-fs`, `points-sum`, `points-mean` or `scenes`; results/play says how it was trained.

    >>> pretrained("points-fs").schema.size
    16
    """
    if name not in names():
        raise unknown("pretrained model", name, names())
    return SetPredictor.from_pretrained(FOLDER / name).float()  # small on disk, exact in memory
