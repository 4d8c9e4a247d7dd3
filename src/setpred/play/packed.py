"""The point models for the browser: their weights as a JavaScript module."""

import base64
import json
from functools import cache

from safetensors.numpy import load_file

from ..pretrained import WEIGHTS
from .zoo import FOLDER

POOLS = ("fs", "sum", "mean")


@cache
def weights_module() -> str:
    """What `encoder.js` imports: every tensor of every model in half precision, as it is stored, in base64."""
    models = {
        pool: {
            name: base64.b64encode(tensor.astype("<f2").tobytes()).decode()
            for name, tensor in load_file(FOLDER / f"points-{pool}" / WEIGHTS).items()
        }
        for pool in POOLS
    }
    return f"export const WEIGHTS = {json.dumps(models, separators=(',', ':'))};\n"
