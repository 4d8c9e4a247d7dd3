"""Trained runs and saved models with inputs for them, and what may be damaged in them."""

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import yaml
from mutations import mutate, swap_value
from readers import tiny_predictor, write_image
from safetensors.torch import load_file, save_file

import setpred as sp
from setpred.compare import make_contests
from setpred.tasks import make_settings
from setpred.training.run import train

RUN_FILES = ("run/config.yaml", "run/config.yaml", "run/model.safetensors", "run/metrics.csv", "run/result.json")
SMALL = {"net.hidden": 8, "net.latent": 8, "solver.steps": 3}
NARROW = {"reader": {}, "queries": {"net.hidden": 8}, "slots": {"net.hidden": 8}}
"""Models that have no inner iterations, and no width but these."""
BRIEF = {"optim.steps": 4, "optim.batch": 4, "trainer.round": 2, "trainer.logger": None}


SELDOM = {"onnx": 1, "torch": 1, "compare": 20}


@dataclass
class Subject:
    """`write` makes sound files in a folder, `files` of them are damaged, `commands` are tried there."""

    name: str
    write: Callable[[Path], None]
    files: tuple[str, ...]
    commands: list[list[str]]

    @property
    def weights(self) -> list[int]:
        """What takes seconds, as to write ONNX, is tried less often than what takes milliseconds."""
        return [next((w for word, w in SELDOM.items() if word in words), 40) for words in self.commands]


def damage(path: Path, rng: random.Random) -> str:
    """Damage a file in one of many ways, and say which."""
    if rng.random() < 0.04:
        path.unlink()
        return "gone"
    if path.suffix == ".safetensors" and rng.random() < 0.7:
        return damage_weights(path, rng)
    if path.suffix == ".yaml" and rng.random() < 0.6:
        path.write_text(yaml.safe_dump(swap_value(yaml.safe_load(path.read_text()), rng), sort_keys=False))
        return "another value"
    if path.suffix == ".ckpt" and rng.random() < 0.9:
        return damage_checkpoint(path, rng)
    content = mutate(path.read_bytes(), rng)
    path.write_bytes(content)
    return "other bytes"


def damage_weights(path: Path, rng: random.Random) -> str:
    weights = load_file(path)
    what = change_weights(weights, rng)
    save_file({name: weight.contiguous() for name, weight in weights.items()}, path)
    return what


def damage_checkpoint(path: Path, rng: random.Random) -> str:
    """Of the authors: another argument, or other weights, of which some show one number many times."""
    stored = torch.load(path, weights_only=True)
    if rng.random() < 0.5:
        swap_value(stored["hyper_parameters"], rng)
        what = f"arguments {str(stored['hyper_parameters'])[:500]}"
    elif rng.random() < 0.2:
        name = rng.choice(list(stored["state_dict"]))
        value = rng.choice([None, "x", 10**9, torch.zeros(1).expand(10**6, 10**6), torch.eye(3).to_sparse()])
        stored["state_dict"][name] = value
        what = f"{name} is of another kind"
    else:
        what = change_weights(stored["state_dict"], rng)
    torch.save(stored, path)
    return what


def change_weights(weights: dict[str, torch.Tensor], rng: random.Random) -> str:
    """Sound weights that are none of this model: NaN, zeros, other types, shapes and names."""
    chosen = list(weights) if rng.random() < 0.4 else [rng.choice(list(weights))]
    kind, change = rng.choice(list(CHANGES.items()))
    for name in chosen:
        weights[name] = change(weights[name])
    if rng.random() < 0.1:
        weights[rng.choice(("x", "encoder", ""))] = weights.pop(chosen[0])
        kind += ", renamed"
    return f"{kind} in {'all' if len(chosen) > 1 else chosen[0]}"


def _cast(dtype: torch.dtype) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda weight: weight.to(dtype)


CHANGES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "NaN": lambda weight: torch.full_like(weight, torch.nan) if weight.is_floating_point() else weight,
    "infinity": lambda weight: torch.full_like(weight, torch.inf) if weight.is_floating_point() else weight,
    "one NaN": lambda weight: (
        weight.where(torch.arange(weight.numel()).view(weight.shape) > 0, torch.nan)
        if weight.is_floating_point()
        else weight
    ),
    "zeros": torch.zeros_like,
    "negative": lambda weight: -weight,
    "huge": lambda weight: weight * 1e30,
    "large": lambda weight: weight * 1e6,
    "tiny": lambda weight: weight * 1e-30,
    "transposed": lambda weight: weight.mT if weight.ndim > 1 else weight.flatten()[:-1],
    "empty": lambda weight: weight.flatten()[:0],
    "wider": lambda weight: torch.cat([weight, weight]) if weight.ndim else weight.expand(2),
    "half": _cast(torch.float16),
    "bfloat16": _cast(torch.bfloat16),
    "double": _cast(torch.float64),
    "complex": _cast(torch.complex64),
    "fp8": _cast(torch.float8_e4m3fn),
    "whole": _cast(torch.int64),
    "bool": _cast(torch.bool),
    "bytes": _cast(torch.uint8),
}


def write_lines(path: Path, lines: list[dict[str, object]]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def train_into(folder: Path, task: str, **changes: object) -> None:
    overrides = {**BRIEF, **{key.replace("__", "."): value for key, value in changes.items()}}
    model = overrides.pop("model", None)
    overrides = {**NARROW.get(model, SMALL), **overrides}
    train(make_settings(task, model, "quick", overrides=overrides), folder / "run", quiet=True)


def write_points(folder: Path) -> None:
    train_into(folder, "autoencoding", data__train=16, data__test=8, restart="Restart", solver__clip=10.0)
    write_lines(folder / "inputs.jsonl", [{"id": i, "set": [[0.1 * i, 0.5]] * 4} for i in range(3)])


def write_numbers(folder: Path) -> None:
    train_into(folder, "numbering", data__train=16, data__test=8, data__n=4, data__classes=3, constraint="Simplex")


def write_data(folder: Path, kind: str) -> None:
    """A small folder of data of one kind, with inputs to predict from."""
    (folder / "data").mkdir()
    for i in range(4):
        write_image(folder / "data" / f"{i}.png")
    inputs = {"vector": [0.5, 1.0], "set": [[1.0, 2.0], [3.0, 4.0]], "image": "0.png"}
    things = [{"at": [2.0 + i, 3.0], "kind": "cat" if i % 2 else "dog", "heading": 30.0 * i} for i in range(6)]
    lines = [
        {"id": i, kind: f"{i % 4}.png" if kind == "image" else inputs[kind], "objects": things[: i % 3]}
        for i in range(8)
    ]
    write_lines(folder / "data" / "train.jsonl", lines)
    write_lines(folder / "data" / "val.jsonl", [{**line, "id": f"v{i}"} for i, line in enumerate(lines)])
    write_lines(folder / "data" / "inputs.jsonl", [{"id": i, kind: inputs[kind]} for i in range(3)])


def write_own(folder: Path, kind: str, model: str) -> None:
    write_data(folder, kind)
    narrow = {"net__width": 8} if kind == "image" else {}
    train_into(folder, str(folder / "data"), model=model, **narrow)


def write_saved(folder: Path) -> None:
    tiny_predictor().save_pretrained(folder / "run")
    write_lines(folder / "inputs.jsonl", [{"id": i, "vector": [1.0 * i, -0.5]} for i in range(3)])


def write_other_saved(folder: Path) -> None:
    """Parts that runs seldom have."""
    schema = sp.Schema({"at": sp.Real(2, range=(0, 10)), "kind": sp.Category("cat", "dog"), "age": sp.Count(9)}, size=3)
    inner = sp.RelationEncoder(schema.dim, hidden=8, latent=8, size=schema.size, pool="sum")
    decoder = sp.SetDecoder(
        inner,
        solver=sp.TorchOptimizer(torch.optim.Adam, lr=0.1, steps=3, betas=(0.5, 0.9)),
        init=sp.GuessedInit(latent=8),
        constraint=sp.PerSlice({(0, 2): sp.Box(0.0, 1.0), (2, 4): sp.Simplex()}),
        adjoint=sp.ConjugateGradient(steps=2),
    )
    sp.SetPredictor(sp.SetEncoder(2, hidden=8, latent=8, size=4), decoder, schema).save_pretrained(folder / "run")
    write_lines(folder / "inputs.jsonl", [{"id": i, "set": [[0.1 * i, 0.5]] * 2} for i in range(3)])


def write_line_search(folder: Path) -> None:
    train_into(folder, "autoencoding", data__train=16, data__test=8, solver="LineSearch")
    write_lines(folder / "inputs.jsonl", [{"id": i, "set": [[0.1 * i, 0.5]] * 4} for i in range(3)])


def write_contest(folder: Path) -> None:
    write_data(folder, "vector")
    (contest,) = make_contests(["data"], ["mlp"], "1s", 1, "quick", Path("kept"))
    for run in contest.runs:
        train(run.settings, run.folder, quiet=True)


def write_theirs(folder: Path) -> None:
    """A checkpoint with the names of the paper's authors."""
    arguments = {"set_size": 4, "set_dim": 2, "dataset_size": 64, "seed": 7, "batch_size": 8, "lr": 1e-3}
    arguments |= {"hidden_dim": 8, "latent_dim": 8, "model": "idspn", "decoder_lr": 1.0, "decoder_iters": 6}
    arguments |= {"decoder_momentum": 0.9, "decoder_grad_clip": 40.0}
    sizes = {"mlp.0.weight": (8, 2), "mlp.0.bias": (8,), "mlp.2.weight": (8, 8), "mlp.2.bias": (8,)}
    sizes["pool.weight"] = (4, 8)
    ends = ("net.input_to_z", "net.inner_obj.encoder")
    state = {f"{end}.{name}": torch.randn(size) for end in ends for name, size in sizes.items()}
    torch.save({"hyper_parameters": arguments, "state_dict": state}, folder / "theirs.ckpt")


EVALUATE = ["evaluate", "run", "--json"]
REPORT = ["report", "run", "--out", "out/report.html"]
CHECK = ["check", "run"]
EXPORTS = [["export", "run", "--to", kind, "--out", f"out/{kind}"] for kind in ("pretrained", "onnx", "torch")]
ADOPT = ["adopt", "theirs.ckpt", "--out", "out/run"]
COMPARE = [
    "compare",
    "data",
    "--models",
    "mlp",
    "--budget",
    "1s",
    "--seeds",
    "1",
    "--preset",
    "quick",
    "--workers",
    "0",
]
CONTEST = "kept/data-quick-1s"
CONTEST_FILES = (
    "trivial.json",
    *(f"mlp-seed0/{name}" for name in ("measured.json", "result.json", "config.yaml", "metrics.csv")),
)
SAVED_FILES = ("run/config.json", "run/config.json", "run/model.safetensors")


def predict(inputs: str = "inputs.jsonl") -> list[str]:
    return ["predict", "run", inputs]


def own(kind: str, model: str, *commands: list[str]) -> Subject:
    files = (*RUN_FILES, "run/config.json", "data/val.jsonl", "data/inputs.jsonl")
    every = [predict("data/inputs.jsonl"), EVALUATE, REPORT, *commands]
    return Subject(f"{model} of {kind}s", lambda folder: write_own(folder, kind, model), files, every)


SUBJECTS = [
    Subject(
        "points",
        write_points,
        (*RUN_FILES, "run/config.json", "inputs.jsonl"),
        [predict(), EVALUATE, CHECK, REPORT, *EXPORTS],
    ),
    Subject("numbers", write_numbers, RUN_FILES, [EVALUATE, CHECK, REPORT]),
    own("vector", "idspn", CHECK, *EXPORTS),
    own("set", "dspn", CHECK, EXPORTS[0]),
    own("image", "idspn", CHECK, EXPORTS[0]),
    own("image", "reader", EXPORTS[0]),
    own("vector", "queries", EXPORTS[0]),
    own("image", "slots", CHECK, EXPORTS[0]),
    Subject("line search", write_line_search, (*RUN_FILES, "run/config.json"), [predict(), EVALUATE, CHECK, REPORT]),
    Subject(
        "contest",
        write_contest,
        (*(f"{CONTEST}/{name}" for name in CONTEST_FILES), "data/train.jsonl", "data/val.jsonl"),
        [
            [*COMPARE, "--out", "kept"],
            ["report", f"{CONTEST}/mlp-seed0", "--out", "out/report.html"],
            ["settings", "data"],
            ["models", "data"],
            ["data", "inspect", "data", "--figure", "out/examples.png"],
        ],
    ),
    Subject("theirs", write_theirs, ("theirs.ckpt",), [ADOPT]),
    Subject("saved", write_saved, (*SAVED_FILES, "inputs.jsonl"), [predict(), *EXPORTS]),
    Subject("other saved", write_other_saved, (*SAVED_FILES, "inputs.jsonl"), [predict(), EXPORTS[0]]),
]
