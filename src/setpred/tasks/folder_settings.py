"""Settings of folders of one's own data: what is in one, models, and presets that follow from it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..baselines.rivals import RIVALS
from ..data.inputs import Inputs
from ..data.records import MAX_LINE, parse
from ..errors import UsageError
from ..recipes import recipe
from ..schema import Schema
from ..solvers import Nesterov
from ..values import read_json
from .settings import ImageModelSettings, ImageOptimSettings, Settings


@dataclass
class FolderData:
    """What was found in the folder, so that a trained run can predict without it.

    Attributes:
        folder: the folder itself; found from the command.
        schema: the fields of an object, as JSON; found in the folder.
        kind: image, vector or set; found in the folder.
        dim: numbers per input vector or input element; found in the folder.
        size: the longer side of images in pixels, or the largest input set.
        width: width of the canvas that images are put on; found in the folder. Runs of older versions have none and
            stretch images to squares.
        height: height of that canvas.
        train: how many examples of train.jsonl are used.
        test: how many examples of val.jsonl are used, both to choose the weights and to judge them.
        tolerance: numbers and angles count as right within this fraction of their scale.
    """

    folder: str = ""
    schema: str = ""
    kind: str = "vector"
    dim: int = 1
    size: int = 1
    width: int | None = None
    height: int | None = None
    train: int = 1
    test: int = 1
    tolerance: float = 0.1


@dataclass
class FolderModelSettings(ImageModelSettings):
    """The networks, and what the schema says about where elements may lie.

    Attributes:
        constraint: fields keeps each field inside its range; usual does so only for sets without presence; none leaves
            all free. A constraint that is named as a part comes first.
    """

    constraint: str | None = "usual"


@dataclass
class FolderSettings(Settings):
    task: str = "folder"
    solver: dict[str, Any] = field(default_factory=lambda: recipe(Nesterov(steps=20, clip=10.0)))
    net: FolderModelSettings = field(default_factory=FolderModelSettings)
    optim: ImageOptimSettings = field(default_factory=lambda: ImageOptimSettings(schedule="cosine"))
    data: FolderData = field(default_factory=FolderData)


MODELS: dict[str, dict[str, Any]] = {
    "idspn": {},
    "dspn": {"solver": "GradientDescent", "solver.clip": None, "adjoint": "Unrolled"},
    "idspn-sum": {"net.pool": "sum"},
    "idspn-mean": {"net.pool": "mean"},
    "idspn-relation": {"net.relation": True},
    "reader": {
        "optim.lr": 2e-3,
        "optim.weight_decay": 0.02,
        "optim.schedule": "one-cycle",
    },
    **RIVALS,
}
PROPOSING = ("reader", *RIVALS)
"""Models that have no decoder."""
ON_A_MAP = ("reader", "queries", "slots", "slots-unrolled")
"""Of images these see the feature map of the reader's trunk, which is narrower than an image encoder."""


def small(data: FolderData) -> dict[str, Any]:
    """Widths by the size of an output, steps by the number of examples."""
    images, schema = data.kind == "image", read_schema(data)
    width = 256 if schema.size * schema.dim <= 100 else 512
    batch = min(32 if images else 128, max(8, data.train // 10))
    epoch = max(1, data.train // batch)
    longest = (5_000 if data.size <= 64 else 2_500) if images else 20_000
    steps = min(max(100 * epoch, 5_000), longest)
    return {
        "net.hidden": width,
        "net.latent": width,
        "optim.batch": batch,
        "optim.steps": steps,
        "trainer.round": steps // 20,
    }


def quick(data: FolderData) -> dict[str, Any]:
    """A first look: whether anything is learned at all."""
    steps = 300 if data.kind == "image" else 1_000
    narrow = {"net.hidden": 128, "net.latent": 128, "net.width": 32}
    return small(data) | narrow | {"solver.steps": 10, "optim.steps": steps, "trainer.round": steps // 10}


def map_small(data: FolderData) -> dict[str, Any]:
    """Of images about fifty epochs."""
    if data.kind != "image":
        return {}
    batch = min(32, max(8, data.train // 10))
    steps = min(max(50 * data.train // batch, 1_500), 6_000)
    return {"net.width": 16, "optim.batch": batch, "optim.steps": steps, "trainer.round": steps // 10}


def map_quick(data: FolderData) -> dict[str, Any]:
    return map_small(data) and map_small(data) | {"optim.steps": 300, "trainer.round": 100}


PRESETS = {"small": small, "quick": quick}
EXCEPTIONS = {
    **{("small", model): map_small for model in ON_A_MAP},
    **{("quick", model): map_quick for model in ON_A_MAP},
}


def best(settings: FolderSettings) -> dict[str, Any]:
    """Nothing: no recipe is known that is better than the defaults."""
    return {}


def rivals(settings: Settings) -> tuple[str, ...]:
    """The reader is for images alone."""
    return ("idspn", "dspn", *(name for name in PROPOSING if name != "reader" or settings.data.kind == "image"))


def usual_model(preset: str, folder: Path | None) -> str:
    """The reader for images, told by the first line of a folder; what is wrong with it is said when it is opened."""
    if folder is None:
        return "idspn"
    try:
        with (folder / "train.jsonl").open("rb") as file:
            return "reader" if "image" in parse(file.readline(MAX_LINE)) else "idspn"
    except (OSError, ValueError):
        return "idspn"


def summary(settings: Settings) -> str:
    """What was found and what was chosen, in a few lines for a person."""
    data, schema = settings.data, read_schema(settings.data)
    net: Any = settings.net
    width, height = image_inputs(data).canvas
    inputs = {
        "image": f"images, read as {width}×{height} pixels",
        "vector": f"vectors of {data.dim} numbers",
        "set": f"sets of up to {data.size} elements of {data.dim} numbers",
    }
    fields = ", ".join([*schema.fields, *(["presence"] if schema.presence else [])])
    sizes = f"hidden {net.hidden}, latent {net.latent}"
    if settings.model not in PROPOSING:
        sizes += f", {settings.solver['steps']} iterations"
    if settings.model in ON_A_MAP and data.kind == "image":
        sizes = f"width {net.width}, places {2 * patch(data)} pixels apart"
    return (
        f"{data.folder}: {data.train:,} examples to train on, {data.test:,} to judge; {inputs[data.kind]}\n"
        f"objects: {'up to ' if schema.presence else ''}{schema.size} of {schema.dim} numbers ({fields})\n"
        f"{settings.model}: {sizes}; "
        f"{settings.optim.steps:,} steps of {settings.optim.batch} examples, judged every {settings.trainer.round}"
    )


def read_schema(data: FolderData) -> Schema:
    """The schema in the settings of a run."""
    if not data.schema:
        raise UsageError("folder is no task by itself: name the folder, as in setpred train my_data")
    try:
        return Schema.from_dict(read_json(data.schema.encode()))
    except ValueError as error:
        raise UsageError(f"data.schema: {error}") from None


def image_inputs(data: FolderData) -> Inputs:
    """How a run reads its images."""
    return Inputs("image", data.dim, data.width or data.size, data.height)


def patch(data: FolderData) -> int:
    """Pixels a side of a column of the reader's finest map."""
    return 2 if data.size <= 96 else 4
