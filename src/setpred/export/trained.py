"""Export what was trained: a run folder or a saved model, by name."""

from pathlib import Path

import torch

from ..errors import UsageError, unknown
from ..prediction import load_model
from .formats import to_onnx, to_torch

FILES = {"onnx": "model.onnx", "torch": "model.pt2", "pretrained": "pretrained"}


def export_trained(name: str, to: str = "onnx", out: Path | None = None, half: bool = False) -> Path:
    """Write a trained model in one of the `FILES`' formats, beside it unless `out` says where, and return the path.

    With `half` a pretrained folder holds weights of half precision.
    """
    if to not in FILES:
        raise unknown("format", to, FILES)
    beside = Path(name) if Path(name).is_dir() else Path()
    path = out or beside / FILES[to]
    model = load_model(name)
    if to == "pretrained":
        return (model.predictor.half() if half else model.predictor).save_pretrained(path)
    if half:
        raise UsageError("--half is for --to pretrained: files of onnx and torch keep full precision")
    if path.is_dir():
        raise UsageError(f"{path} is a folder: name the file with --out")
    inputs, mask = model.inputs, None
    example = torch.zeros(1, *inputs.shape)
    if inputs.kind == "set":  # its last number says which elements exist, which is the mask's to say
        example, mask = example[..., :-1], torch.ones(1, inputs.size, dtype=torch.bool)
    return (to_onnx if to == "onnx" else to_torch)(model.predictor, path, example, mask)
