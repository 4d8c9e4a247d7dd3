"""The small trained models that come with the playground, for Python and for the browser."""

import base64
import json
from functools import cache
from pathlib import Path

from safetensors.numpy import load_file

from ..errors import unknown
from ..predictor import SetPredictor
from ..pretrained import WEIGHTS

FOLDER = Path(__file__).parent / "models"
IN_THE_BROWSER = ("fs", "sum", "mean")
"""Poolings of the point models, which the page runs itself."""


def names() -> list[str]:
    """The names of all models."""
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


@cache
def weights_module() -> str:
    """The JavaScript module that `encoder.js` imports: the tensors of the point models in base64, float16 as stored."""
    models = {
        pool: {
            name: base64.b64encode(tensor.astype("<f2").tobytes()).decode()
            for name, tensor in load_file(FOLDER / f"points-{pool}" / WEIGHTS).items()
        }
        for pool in IN_THE_BROWSER
    }
    return f"export const WEIGHTS = {json.dumps(models, separators=(',', ':'))};\n"
