"""Training that begins with a ResNet-18 which others trained."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import UsageError
from ..image_encoder import ImageEncoder
from ..tasks.settings import Settings

WIDTH = 64
"""Of a ResNet-18."""


def load_public_weights(experiment: nn.Module, settings: Settings) -> None:
    """Give the image encoder of an experiment the weights in the file `net.weights`, where there is one."""
    net: Any = settings.net
    path = getattr(net, "weights", None)
    if path is None:
        return
    encoder = getattr(getattr(experiment, "predictor", None), "encoder", None)
    if not isinstance(encoder, ImageEncoder):
        raise UsageError(
            f"net.weights is for the image encoder of models such as idspn, which {settings.model} has not here"
        )
    if net.width != WIDTH:
        raise UsageError(f"net.weights are those of a ResNet-18, whose width is {WIDTH}: set net.width={WIDTH}")
    if settings.optim.start is not None:
        raise UsageError("optim.start and net.weights are both what training begins with: give one of them")
    try:
        encoder.load_resnet18(_read_state(Path(path)))
    except ValueError as error:
        raise UsageError(f"net.weights={path}: {error}") from None


def _read_state(path: Path) -> dict[str, Tensor]:
    """The tensors of a file of safetensors or of a state dict of torch; nothing in it is run."""
    if not path.is_file():
        raise ValueError("there is no such file")
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        state = torch.load(path, map_location="cpu", weights_only=True)
        if all(isinstance(value, Tensor) for value in state.values()):
            return dict(state)
    except Exception:  # a damaged file can be anything
        pass
    raise ValueError("cannot be read: give safetensors, or a state dict of torch")
