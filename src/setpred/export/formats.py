"""Predictors as files that run without this package: ONNX, or torch's own format.

Both hold a graph with the inputs `input`, `start` (the initial sets), `steps` (the number of inner iterations) and, for
input sets, `mask`. Its output is `sets`. The metadata of the file hold what else its users need: the schema, the
decoder's own initial set and number of iterations, and how images are brought to the size of the input. A predictor
that reads images without a decoder has neither `start` nor `steps`.
"""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .. import __version__
from ..errors import UsageError, unknown
from ..files import replacing
from ..image_encoder import ImageEncoder
from ..inits import GuessedInit
from ..notices import quiet
from ..predictor import SetPredictor
from ..trunks import ResNetTrunk, Trunk
from .loop import exported


def to_onnx(predictor: SetPredictor, path: str | Path, example: Tensor, mask: Tensor | None = None) -> Path:
    """Write the predictor as ONNX, with the schema, the start and the steps in the metadata, and return the path.

    The outputs are `sets` and, if the model has a decoder, `diverged` [batch], which is true where the inner
    optimisation diverged; the sets are then the best finite iterates.

    The exported graph starts every example once, from the given start; it has no restarts. For a decoder with a
    `GuessedInit`, the given start is added to the guess.

    Args:
        predictor: with a decoder whose solver is `Nesterov` or `GradientDescent`, its step size a number, or with a
            `Proposer` and no decoder.
        path: the file.
        example: an input, `[1, …]`; only its shape matters.
        mask: which elements exist, `[1, elements]`. With it, the exported graph takes a mask, for input sets of
            different sizes.
    """
    try:
        import onnx
        import onnxscript  # noqa: F401
    except ImportError:
        raise UsageError("ONNX needs packages that are not here: pip install 'setpred[export]'") from None
    with _calm():
        program = torch.onnx.export(
            exported(predictor, example, mask),
            dynamo=True,
            verbose=False,
            input_names=[
                "input",
                *(["start", "steps"] if predictor.decoder else []),
                *(["mask"] if mask is not None else []),
            ],
            output_names=["sets", "diverged"] if predictor.decoder else ["sets"],
            custom_translation_table={torch.ops.aten.sort.stable: _stable_sort},
        )
    assert program is not None
    model = program.model_proto
    _drop_unused(model.graph)
    _name_batch(model.graph, model.graph.input[0].type.tensor_type.shape.dim[0].dim_param)
    onnx.helper.set_model_props(model, {key: _text(value) for key, value in about(predictor).items()})
    with replacing(Path(path)) as temporary:
        onnx.save(model, temporary)
    return Path(path)


def to_torch(predictor: SetPredictor, path: str | Path, example: Tensor, mask: Tensor | None = None) -> Path:
    """Write the predictor for `torch.export.load`, with the metadata of `to_onnx` as `setpred.json` inside the file.

    The program takes the input, the start, the steps and, if the model has one, the mask, in this order. It returns the
    sets and which examples diverged. It has no restarts either.
    """
    with _calm():
        program = exported(predictor, example, mask)
        with replacing(Path(path)) as temporary, temporary.open("wb") as file:
            torch.export.save(program, file, extra_files={"setpred.json": json.dumps(about(predictor))})
    return Path(path)


def about(predictor: SetPredictor) -> dict[str, Any]:
    """The metadata that users of the file need."""
    decoder, encoder = predictor.decoder, predictor.encoder
    shared: dict[str, Any] = {"setpred": __version__, "schema": predictor.schema.to_dict()}
    eyes = next((part for part in encoder.modules() if isinstance(part, Trunk | ResNetTrunk | ImageEncoder)), None)
    if eyes is not None:
        whole = not isinstance(eyes, ImageEncoder) or not isinstance(eyes.size, int)
        shared["images"] = "letterboxed" if whole else "stretched"
    if decoder is None:
        return shared
    if isinstance(decoder.init, GuessedInit):
        start = torch.zeros(decoder.size, decoder.dim)
    else:
        start = deepcopy(decoder.init).eval()(1, next(decoder.parameters()).detach())[0]
    return shared | {"start": start.tolist(), "steps": int(decoder.solver.iterations())}


def _stable_sort(values: Any, stable: bool = False, dim: int = -1, descending: bool = False) -> Any:
    """TopK of everything: it ranks equal values by their index, as a stable sort does."""
    from onnxscript import opset18

    op: Any = opset18
    count = op.Gather(op.Shape(values), op.Constant(value_ints=[dim]))
    return op.TopK(values, count, axis=dim, largest=int(descending), sorted=1)


def _name_batch(graph: Any, symbol: str) -> None:
    """Call the dimension by its name, in the graph and in the body of its loop."""
    for value in (*graph.input, *graph.output, *graph.value_info):
        for dimension in value.type.tensor_type.shape.dim:
            if dimension.dim_param == symbol:
                dimension.dim_param = "batch"
    for body in _bodies(graph):
        _name_batch(body, symbol)


def _drop_unused(graph: Any) -> None:
    """Constants that torch's exporter has folded away but left in the file, of which onnxruntime would warn."""
    used = _used(graph)
    for constant in [constant for constant in graph.initializer if constant.name not in used]:
        graph.initializer.remove(constant)


def _used(graph: Any) -> set[str]:
    names = {name for node in graph.node for name in node.input} | {value.name for value in graph.output}
    return names.union(*(_used(body) for body in _bodies(graph)))


def _bodies(graph: Any) -> list[Any]:
    """The graphs inside its nodes, as that of a loop."""
    return [attribute.g for node in graph.node for attribute in node.attribute if attribute.HasField("g")]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _calm() -> AbstractContextManager[None]:
    """Silence what torch's exporter says about packages that are not needed and about its own functions."""
    return quiet("torch.onnx", "torch.export")


FILES = {"onnx": "model.onnx", "torch": "model.pt2", "pretrained": "pretrained"}


def export_trained(name: str, to: str = "onnx", out: Path | None = None, half: bool = False) -> Path:
    """Write a trained model in one of the formats in `FILES`, to `out` or beside the model, and return the path.

    With `half`, a pretrained folder holds weights in half precision.
    """
    from ..prediction import load_model  # needs rich, which a library that exports does without

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
