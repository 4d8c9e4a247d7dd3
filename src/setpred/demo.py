"""The main job end to end: equal elements told apart, points rebuilt from a vector, objects read from images."""

import multiprocessing
import os
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from rich.console import Console
from rich.live import Live
from rich.table import Table

from .tasks import make_settings
from .training.run import train
from .training.verdicts import check_run

if TYPE_CHECKING:
    from .report.markup import Section

SCENES_SEED = 9
SHARED: dict[str, Any] = {"data.test": 1_000, "trainer.round": 100, "trainer.logger": None}
# More elements than classes: every example has equals, which no set-equivariant model can number.
NUMBERING = SHARED | {
    "data.n": 6,
    "data.classes": 3,
    "data.per_example": None,
    "data.train": 640,
    "data.val": 500,
    "optim.steps": 400,
}
POINTS = SHARED | {
    "net.hidden": 128,
    "net.latent": 128,
    "data.n": 8,
    "data.d": 2,
    "data.train": 16_000,
    "optim.steps": 1_000,
}
LINES: dict[str, tuple[str, str, Mapping[str, Any]]] = {
    **{
        model: ("numbering", model, NUMBERING)
        for model in (
            "idspn",
            "dspn",
            "deepsets",
            "transformer",
            "transformer-random-pe",
            "transformer-pe",
            "bilstm",
        )
    },
    "points": ("autoencoding", "idspn", POINTS),
}
"""The lines of the table: task, model and settings."""
# The slowest first, so that no core is left alone with it at the end.
ORDER = ("points", "dspn", "idspn", "transformer-random-pe", "transformer-pe", "transformer", "bilstm", "deepsets")


def demo(out: Path) -> Path:
    """Train all models into folders below `out`, show the table as it fills, and write the page about them.

    Runs that are finished are not made again.
    """
    console = Console(highlight=False)
    console.print(
        "Number equal elements, [a, a, b] → [(a, 0), (a, 1), (b, 0)]; a set counts if all of it is right.", markup=False
    )
    rows: dict[str, list[str] | None] = dict.fromkeys(ORDER)
    context = multiprocessing.get_context("spawn")
    with (
        ProcessPoolExecutor(os.cpu_count(), mp_context=context, initializer=_use_one_core) as pool,
        Live(_table(rows), console=console, refresh_per_second=4) as live,
    ):
        jobs = {pool.submit(_row, name, out / name): name for name in rows}
        for job in as_completed(jobs):
            rows[jobs[job]] = job.result()
            live.update(_table(rows))

    from .report import report

    page = report([out / name for name in rows], out / "report.html", title="setpred demo", more=[_scenes])
    console.print(
        f"\nOpen this page: {page}\nIt has the figures, and four images read by the shipped model.\n\n"
        "Next:\n"
        f"  setpred check {out / 'idspn'}\n"
        "      says which equivariance the model has, with an example\n"
        f"  setpred evaluate {out / 'points'} steps=5,10,20,40\n"
        "      evaluates the same weights with other numbers of inner iterations\n"
        "  setpred train autoencoding data.n=4 data.d=4\n"
        "      trains the paper's second experiment at a smaller size\n"
        "  setpred reproduce autoencoding n=2 d=2 steps=10 model=idspn seeds=0\n"
        "      trains one cell of a published table, in a quarter of an hour on two idle cores",
        soft_wrap=True,
    )
    return page


def _row(name: str, folder: Path) -> list[str]:
    """Train one line of the table."""
    task, model, changes = LINES[name]
    result = train(make_settings(task, model, "quick-best", overrides=changes), folder, resume=True, quiet=True)
    metrics = result["metrics"]
    if "accuracy" in metrics:
        what, found = check_run(folder).verdict, f"{metrics['accuracy']:.1%}"
    else:
        what, found = "8 points in the plane, to a vector and back", f"loss {metrics['loss']:.2g}"
    return [found, what, f"{result['seconds']:.0f}"]


def _use_one_core() -> None:
    torch.set_num_threads(1)


def _table(rows: Mapping[str, list[str] | None]) -> Table:
    table = Table("model", "sets right", "equivariance found by check", "seconds")
    for _, names in groupby(LINES, lambda name: LINES[name][0]):
        table.add_section()
        for name in names:
            table.add_row(LINES[name][1], *(rows[name] or ["…", "", ""]))
    return table


def _scenes() -> "Section":
    """Rendered scenes that no one trained on, read by the model that comes with the package."""
    from .data.scenes import Scenes
    from .play.zoo import pretrained
    from .report.markup import Drawing, Section
    from .views.scenes import LEGEND, scene_figure

    model, scenes, panels = pretrained("scenes"), Scenes(size=(192, 128), seed=SCENES_SEED), []
    for index in range(4):
        image, truth, _ = scenes[index]
        with torch.no_grad():
            found = model(image[None])[0]
        pixels = (255 * image).round().byte()
        panels.append(scene_figure(pixels, truth, {"read": found}, scenes.scene(index).camera, f"scene {index}"))
    sentence = f"The first four scenes of a seed that was not trained on, as the shipped model reads them. {LEGEND}"
    return Section("Images", [Drawing("images", sentence, panels)])
