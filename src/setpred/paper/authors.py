"""Checkpoints of the paper's authors as run folders.

Their code (github.com/davzha/multiset-equivariance) saves Lightning checkpoints: arguments under `hyper_parameters`,
weights under `state_dict`. What differs from ours: FSPool's weights go from the lowest rank to the highest, elements
in numbering hold the number before the class, and cubes come before cylinders.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..data.importers.write import whole_folder
from ..errors import UsageError, usage_errors
from ..tasks import make_experiment, make_settings
from ..tasks.experiment import Experiment
from ..tasks.settings import Settings
from ..training.run_folder import write_config, write_model

RIVALS = {
    "deepsets": "deepsets",
    "lstm": "bilstm",
    "transformer_with_pe": "transformer-pe",
    "transformer_no_pe": "transformer",
    "transformer_rnd_pe": "transformer-random-pe",
}
# Beginnings of names: theirs → ours. A later line may rename what an earlier one gave.
NAMES = {
    "net.input_to_z.": "encoder.",
    "net.inner_obj.encoder.": "decoder.encoder.",
    "net.dspn._set_0": "decoder.init.sets",
    "net.ds.0.lin0.": "first.each.",
    "net.ds.0.lin1.": "first.mean.",
    "net.ds.2.lin0.": "second.each.",
    "net.ds.2.lin1.": "second.mean.",
    "net.proj_in.": "source.",
    "net.rnn.": "lstm.",
    "net.proj_out.": "head.",
    "net.proj_src.": "source.",
    "net.proj_tgt.": "target.",
    "net.alpha": "noise_mean",
    "net.beta": "noise_log_scale",
    "net.transformer.": "transformer.",
    "encoder.layers.0.": "encoder.resnet.conv1.",
    "encoder.layers.1.": "encoder.resnet.bn1.",
    **{f"encoder.layers.{3 + i}.": f"encoder.resnet.layer{i}." for i in range(1, 5)},
    "encoder.end.0.": "encoder.norm.",
    "encoder.end.1.": "encoder.project.",
    "encoder.mlp.": "encoder.net.",
    "decoder.encoder.mlp.": "decoder.encoder.net.",
}
CUBES_LAST = [*range(14), 15, 14, *range(16, 19)]
TWICE = ("net.dspn.inner_obj.", "net.pe.")
"""Names of weights that are stored a second time, and of constants."""


def adopt(checkpoint: Path, out: Path) -> Settings:
    """Write the run folder `out` of a checkpoint; returns its settings.

    The folder can be evaluated, checked and reported as one of ours; iterations and data are those of the checkpoint.
    """
    arguments, state = _read(checkpoint)
    try:
        settings = settings_of(arguments)
        for name, rate in (("lr", settings.optim.lr), ("decoder_lr", settings.solver["lr"])):
            if rate <= 0:
                raise UsageError(f"{name} is {rate:g}, with which nothing is learned: it is above 0 in their trainings")
        with torch.device("meta"):  # no argument asks for memory before the weights are seen to fit
            wanted = _model(make_experiment(settings)).state_dict()
        found = translated(state, settings)
        if wrong := [name for name in found if name not in wanted or wanted[name].shape != found[name].shape]:
            raise UsageError(f"{wrong[0]} has no place in {settings.model} of {settings.task}")
        if missing := [name for name in wanted if name not in found and name not in ("encoder.mean", "encoder.std")]:
            raise UsageError(f"it lacks {missing[0]} of {settings.model} of {settings.task}")
        if wrong := [name for name, weight in found.items() if weight.is_complex() or not weight.isfinite().all()]:
            raise UsageError(f"{wrong[0]} holds what is no finite number: did the training diverge?")
    except KeyError as error:
        raise UsageError(f"{checkpoint} lacks {error}: is it a checkpoint of the paper's authors?") from None
    except UsageError as error:
        raise UsageError(f"{checkpoint}: {error}") from None
    except (IndexError, RuntimeError, TypeError, ValueError) as error:  # as of a weight without dimensions
        raise UsageError(f"{checkpoint} is damaged ({str(error).splitlines()[0][:100]}): download it again") from None
    experiment = make_experiment(settings)
    _model(experiment).load_state_dict(found, strict=False)
    with usage_errors(), whole_folder(out) as folder:
        write_config(settings, folder)
        write_model(experiment, folder)
    return settings


MODEL = {"numbering": "model", "clevr": "predictor"}
"""Where the model is in an experiment."""


def _model(experiment: Experiment) -> nn.Module:
    place = MODEL.get(experiment.settings.task)
    return experiment if place is None else experiment.get_submodule(place)


def settings_of(arguments: Mapping[str, Any]) -> Settings:
    """Our settings for the arguments of a training of theirs."""
    if "n_obj_per_sample" in arguments:
        task, data = (
            "numbering",
            {
                "data.n": arguments["set_size"],
                "data.classes": arguments["input_dim"],
                "data.per_example": arguments["n_obj_per_sample"],
                "data.augment": arguments["rand_perm"],
                "data.train": arguments["dataset_size"],
            },
        )
    elif "clevr_image_size" in arguments:
        task, data = "clevr", {"data.size": arguments["clevr_image_size"]}
    else:
        task, data = (
            "autoencoding",
            {
                "data.n": arguments["set_size"],
                "data.d": arguments["set_dim"],
                "data.train": arguments["dataset_size"],
            },
        )
    model = str(arguments["model"])
    common = {
        "net.hidden": arguments["hidden_dim"],
        "optim.lr": arguments["lr"],
        "optim.batch": arguments["batch_size"],
    }
    if model in RIVALS:
        return make_settings(task, RIVALS[model], "paper", arguments["seed"], data | common)
    return make_settings(task, model, "paper", arguments["seed"], data | common | _of_decoder(arguments))


def _of_decoder(arguments: Mapping[str, Any]) -> dict[str, Any]:
    momentum, pool = arguments["decoder_momentum"], arguments.get("decoder_pool", "fs")
    unrolled, numbering = arguments["model"] == "dspn", "n_obj_per_sample" in arguments
    return {
        "solver": "Nesterov" if momentum else "GradientDescent",
        **({"solver.momentum": momentum} if momentum else {}),
        "solver.lr": arguments["decoder_lr"],
        "solver.steps": arguments["decoder_iters"],
        "solver.eval_steps": arguments.get("decoder_val_iters"),
        "solver.clip": None if unrolled else arguments.get("decoder_grad_clip"),
        "adjoint": "Unrolled" if unrolled else "Identity",
        "init": "LearnedInit" if arguments.get("decoder_learn_init_set") else "RandomInit",
        **({"init.projected": False} if unrolled and numbering else {}),
        "net.latent": arguments["latent_dim"],
        "net.pool": "fs" if pool == "rnfs" else pool,
        "net.relation": pool == "rnfs",
        "optim.iterations": None,
    }


def translated(state: Mapping[str, Tensor], settings: Settings) -> dict[str, Tensor]:
    """Weights under our names and in our order."""
    found = {}
    for name, weight in state.items():
        if name.startswith(TWICE):
            continue
        for theirs, ours in NAMES.items():
            name = ours + name.removeprefix(theirs) if name.startswith(theirs) else name
        if name.endswith("pool.weight"):
            weight = weight.flip(0)
        elif name == "decoder.init.sets":
            weight = reordered(weight[0], settings)
        elif name == "decoder.encoder.net.0.weight":
            halves = weight.chunk(2 if settings.net.relation else 1, dim=1)
            weight = torch.cat([reordered(half, settings) for half in halves], dim=1)
        elif name.startswith("noise_"):
            weight = weight[0]
        if settings.net.relation:
            name = name.replace("decoder.encoder.", "decoder.encoder.pairs.")
        found[name] = weight.contiguous()
    return found


def reordered(elements: Tensor, settings: Settings) -> Tensor:
    """Columns `[any, dim]` that belong to the numbers of an element, in our order."""
    if settings.task == "numbering":  # classes come first
        return elements.roll(-settings.data.n, dims=1)
    return elements[:, CUBES_LAST] if settings.task == "clevr" else elements


def _read(checkpoint: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    if not checkpoint.is_file():
        raise UsageError(f"there is no file {checkpoint}: download a checkpoint of the authors' runs")
    try:
        stored = torch.load(checkpoint, map_location="cpu", weights_only=True)
        arguments, state = dict(stored["hyper_parameters"]), dict(stored["state_dict"])
        largest = checkpoint.stat().st_size
        for name, weight in state.items():  # a small file can show one number a billion times
            if weight.layout is not torch.strided or weight.nbytes > largest:
                raise TypeError(f"{name} is no plain tensor")
    except Exception as error:  # a damaged file can be anything
        reason = (str(error) or type(error).__name__).splitlines()[0][:100]
        raise UsageError(f"{checkpoint} is not a Lightning checkpoint of tensors and plain values: {reason}") from None
    return arguments, state
