"""Saved models: `config.json` and `model.safetensors` in a folder, as the hub has them; loading never runs code.

The configuration is a recipe (see `recipes.py`) with a stamp: the version of setpred and the number of the format.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Self, TypeVar

import torch
from torch import Tensor, nn

from . import __version__
from .errors import UsageError, unknown
from .files import replacing
from .recipes import build, recipe
from .values import read_json

FORMAT = 1
CONFIG, WEIGHTS = "config.json", "model.safetensors"
RUN = "config.yaml"
"""What a run folder holds besides; the run of a model that has a recipe is a saved model as well."""

PRECISIONS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)

T = TypeVar("T")


class Pretrained(nn.Module):
    """A module that can be saved to a folder and loaded again, here or on the Hugging Face hub."""

    def save_pretrained(self, folder: str | Path) -> Path:
        """Write `config.json` and `model.safetensors` into `folder`, and return it.

        Parts of your own classes are saved with their weights but without a recipe: `from_pretrained` asks for them.
        """
        folder = Path(folder)
        if (folder / RUN).exists():
            raise UsageError(f"{folder} is a run folder, whose weights would be overwritten: save to another one")
        config = describe(self)
        write_weights(self, folder)
        write_config(config, folder)
        return folder

    @classmethod
    def from_pretrained(cls, name: str | Path, revision: str | None = None, **parts: Any) -> Self:
        """A saved model, in `eval()`.

        Args:
            name: a folder, of a saved model or of a finished run, or `owner/name` on the Hugging Face hub.
            revision: a branch, tag or commit on the hub.
            parts: arguments that are not taken from the file, such as `encoder=` for an encoder of your own; their
                weights are.
        """
        folder = Path(name) if Path(name).is_dir() else _download(str(name), revision)
        if (folder / RUN).exists() and not (folder / CONFIG).exists():
            # A run of an earlier version, or of a model that has no recipe: its settings say how to build it.
            return _checked(import_module("setpred.training.run_folder").load_predictor(folder), cls, folder)
        plain = read_config(folder)["model"]
        for key in parts:
            if key not in plain:
                raise unknown(f"part of {plain.get('class')}", key, [name for name in plain if name != "class"])
        try:
            with torch.device("meta"):  # the weights come from their file, so that no configuration asks for memory
                model = build(plain, **parts)
        except UsageError as error:
            raise UsageError(f"{folder / CONFIG}: {error}") from None
        _checked(model, cls, folder)
        _load_weights(model, folder / WEIGHTS)
        return model.eval()

    def push_to_hub(self, name: str, private: bool = False) -> str:
        """Upload to the Hugging Face hub as `owner/name`, and return its address; you must be logged in there."""
        hub = _hub(name)
        with tempfile.TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            Path(folder, "README.md").write_text(CARD.format(name=name, kind=type(self).__name__), encoding="utf-8")
            address = hub.create_repo(name, private=private, exist_ok=True)
            hub.upload_folder(repo_id=name, folder_path=folder)
        return str(address)


CARD = """---
library_name: setpred
tags: [set-prediction]
---

    import setpred as sp
    model = sp.{kind}.from_pretrained("{name}")
"""


def describe(model: nn.Module) -> dict[str, Any]:
    """What `config.json` says of a model; a `UsageError` where that could not build it again."""
    config = {"format": FORMAT, "setpred": __version__, "model": recipe(model)}
    if config["model"]["class"] == "own":
        raise UsageError(f"{type(model).__name__} is a class of your own: save the parts of setpred in it")
    _check_replaced(model, config["model"])
    return config


def write_config(config: Mapping[str, Any], folder: Path) -> None:
    text = json.dumps(config, indent=2, allow_nan=False) + "\n"
    with replacing(folder / CONFIG) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_weights(model: nn.Module, folder: Path) -> None:
    """The weights of a model; one that has several names is kept under the last of them, which the others point to."""
    from safetensors.torch import save

    state = model.state_dict()
    last = {_place(value): name for name, value in state.items()}
    others = {name: last[_place(value)] for name, value in state.items() if last[_place(value)] != name}
    weights = {name: value.detach().cpu().clone().contiguous() for name, value in state.items() if name not in others}
    with replacing(folder / WEIGHTS) as temporary:
        temporary.write_bytes(save(weights, metadata={"format": "pt", **others}))


def _place(weight: Tensor) -> tuple[Any, ...]:
    """Where in memory a tensor is; an empty one is nowhere, and alone there."""
    return (weight.data_ptr(), weight.shape, weight.stride()) if weight.numel() else (id(weight),)


def read_config(folder: Path) -> dict[str, Any]:
    """What `config.json` says, after a look at its stamp."""
    path = folder / CONFIG
    try:
        config = read_json(path.read_bytes())
    except FileNotFoundError:
        raise UsageError(f"{folder} holds no {CONFIG}: was it saved here?") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} is damaged ({str(error).splitlines()[0]}): save the model again") from None
    number = config.get("format") if isinstance(config, dict) else None
    if not isinstance(number, int) or not isinstance(config.get("model"), dict):
        raise UsageError(f"{path} was not written by setpred: its models are saved with save_pretrained")
    if number > FORMAT:
        raise UsageError(
            f"{path} has format {number} of setpred {config.get('setpred')}, this is setpred {__version__}: upgrade it"
        )
    return config


def _checked(model: Any, cls: type[T], folder: Path) -> T:
    if not isinstance(model, cls):
        kind = type(model).__name__
        raise UsageError(f"{folder} holds a {kind}: load it with {kind}.from_pretrained")
    return model


def _load_weights(model: nn.Module, path: Path) -> None:
    from safetensors import SafetensorError, safe_open
    from safetensors.torch import load_file

    try:
        # Copied: products of weights that lie anywhere in a file may differ in the last bit from those of torch's own.
        weights: dict[str, Tensor] = {name: weight.clone() for name, weight in load_file(path).items()}
        with safe_open(path, "pt") as file:
            others = file.metadata() or {}
        weights |= {name: weights[kept] for name, kept in others.items() if kept in weights}
        check_numbers(weights, model, path)
        model.load_state_dict(weights, assign=True)
    except FileNotFoundError:
        again = "train the run again with another --out" if (path.parent / RUN).exists() else "save the model again"
        raise UsageError(f"{path} is missing: {again}") from None
    except (SafetensorError, OSError) as error:
        raise UsageError(f"{path} is damaged ({error}): save the model again") from None
    except (RuntimeError, TypeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UsageError(f"{path} does not fit {CONFIG} ({reason}): were both saved together?") from None


def check_numbers(weights: Mapping[str, Tensor], model: nn.Module, path: Path) -> None:
    """Raise unless these can be computed with as weights of the model: real, finite, all of one precision."""
    used, own = set(), model.state_dict()
    trained = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    for name in weights.keys() & own.keys():
        weight, found = weights[name], str(weights[name].dtype).removeprefix("torch.")
        if weight.dtype not in PRECISIONS if own[name].is_floating_point() else weight.dtype != own[name].dtype:
            raise UsageError(f"{path}: {name} is of type {found}, which this model cannot use: save the model again")
        if not weight.is_floating_point():
            continue
        used.add(found)
        # A threshold that is not known yet is infinite.
        if weight.isnan().any() or (name in trained and weight.isinf().any()):
            raise UsageError(f"{path}: {name} holds NaN or infinity: did the training diverge? train or save it again")
    if len(used) > 1:
        raise UsageError(f"{path} mixes {' and '.join(sorted(used))}: bring the model to one of them and save it again")


def _download(name: str, revision: str | None) -> Path:
    owner = name.partition("/")[0]
    # Nobody on the hub is meant by the name of a folder here, or of the one that trainings are written to.
    if name.count("/") != 1 or name.startswith((".", "/", "~")) or owner == "runs" or Path(owner).is_dir():
        raise UsageError(f"there is no folder {name}: name a run folder, a saved model, or owner/name on the hub")
    hub = _hub(name)
    try:
        return Path(hub.snapshot_download(name, revision=revision, allow_patterns=[CONFIG, WEIGHTS]))
    except Exception as error:  # many kinds, from the network, the hub and its cache
        raise UsageError(f"there is no folder {name}, and the hub says: {str(error).splitlines()[0]}") from None


def _hub(name: str) -> Any:
    try:
        import huggingface_hub
    except ImportError:
        raise UsageError(f"{name} is no folder here; for the hub: pip install huggingface_hub") from None
    return huggingface_hub


def _check_replaced(model: nn.Module, plain: dict[str, Any]) -> None:
    """Raise where a layer was put in the place of another one, which loading would bring back."""
    try:
        with torch.device("meta"):
            loaded = build(plain)
    except UsageError:  # with a part of the user's own, who is asked for it at loading
        return
    for (name, own), (_, fresh) in zip(_layers(model), _layers(loaded), strict=False):
        if type(own) is not type(fresh):
            raise UsageError(
                f"{name} is {type(own).__name__} where the model is built with {type(fresh).__name__}: such a change "
                "cannot be saved, keep the weights with torch.save"
            )


def _layers(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    return model.named_modules(remove_duplicate=False)
