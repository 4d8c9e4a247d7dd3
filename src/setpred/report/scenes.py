"""Pictures of predicted scenes: on the image, on a map seen from above, and in words, what is wrong in red."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from ..data.clevr import CLEVR_SCHEMA
from ..data.scenes import camera
from ..data.scenes.look import COLORS
from ..errors import UsageError
from ..files import replacing
from ..matching import COSTS, assign
from ..training.scene_cache import RENDERED, SceneSplit
from .evidence import Evidence, gather
from .look import ALARM, FAINT, INK, MUTED, panel, style
from .runs import Run, label, read_run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WORDS = ("size", "color", "material", "shape")
MARKERS = {"sphere": "o", "cube": "s", "cylinder": "d"}
AREAS = {"large": 105, "small": 50}
NEAR = 0.5
"""A prediction farther away than this is wrong."""
FARTHEST = 4.6
COLUMNS = (0.0, 0.09, 0.27, 0.47, 0.66, 0.9)


@dataclass
class Pair:
    """An object that is there or predicted, or both; `wrong` names the attributes that differ."""

    number: int
    true: dict[str, Any] | None
    predicted: dict[str, Any] | None
    wrong: tuple[str, ...]
    distance: float

    @property
    def right(self) -> bool:
        return self.true is not None and self.predicted is not None and not self.wrong and self.distance <= NEAR


def pair_up(predicted: Tensor, target: Tensor) -> list[Pair]:
    """Predicted and true elements `[10, 19]` matched as in the loss; the true ones come first, in their order.

    >>> target = CLEVR_SCHEMA.encode([{"3d_coords": [0, 0, 0.7], "size": "large", "color": "red",
    ...                                "material": "metal", "shape": "cube"}])
    >>> predicted = target.roll(1, dims=0)
    >>> predicted[1, :2] = 0.1
    >>> [(pair.right, pair.wrong, round(pair.distance, 2)) for pair in pair_up(predicted, target)]
    [(True, (), 0.42)]
    """
    predicted = predicted.nan_to_num(nan=0.0, posinf=1e3, neginf=-1e3).clamp(-1e3, 1e3)
    partner = assign(COSTS["huber"](predicted[:, None], target[None])[None]).target[0]
    order = partner.argsort()
    pairs: list[Pair] = []
    for there, here in zip(target, predicted[order], strict=True):
        true, guess = (_object(element) for element in (there, here))
        if true is None and guess is None:
            continue
        wrong = tuple(word for word in WORDS if true and guess and true[word] != guess[word])
        distance = float((CLEVR_SCHEMA.position(there) - CLEVR_SCHEMA.position(here)).norm())
        pairs.append(Pair(len(pairs) + 1, true, guess, wrong, distance))
    return pairs


def scene_figure(
    image: Tensor | None,
    target: Tensor,
    predictions: Mapping[str, Tensor],
    position: ArrayLike = camera.POSITION,
    title: str = "",
) -> "Figure":
    """The truth, and beside it each prediction by its name.

    Args:
        image: `[3, height, width]` in bytes, or None where the model saw none.
        target: `[10, 19]`.
        predictions: `[10, 19]` each, such as the iterates of a decoder.
        position: of the camera; the middle of its jitter if it is not known.
        title: over the whole.
    """
    columns = 1 + len(predictions)
    shown = {name: pair_up(elements, target) for name, elements in {"true": target, **predictions}.items()}
    lines = max(1, *map(len, shown.values()))
    heights = ([1.5] if image is not None else []) + [2.1, 0.18 * lines]
    figure, axes = panel(
        len(heights),
        columns,
        width=2.35 * columns,
        height=sum(heights) + 0.6,
        squeeze=False,
        gridspec_kw={"height_ratios": heights},
    )
    for column, (name, pairs) in enumerate(shown.items()):
        there = sum(pair.true is not None for pair in pairs)
        score = f"{there} objects" if column == 0 else f"{sum(pair.right for pair in pairs)} of {there} right"
        axes[0][column].set_title(f"{name}: {score}", fontsize=8.5)
        if image is not None:
            _on_image(axes[0][column], image, pairs if column else [], position)
        _on_map(axes[-2][column], pairs, position)
        _in_words(axes[-1][column], pairs, lines, truth=column == 0)
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=9.5, fontweight="bold")
    return figure


def example_scene(evidence: Evidence, example: int, among: Sequence[Run]) -> "Figure":
    """One test scene of a run, at several iterations where the model has them."""
    run = evidence.run
    predictions = {name: sets[example] for name, sets in evidence.iterates.items()}
    image = None if evidence.inputs is None else evidence.inputs[example]
    title = f"{label(run, among)}, test scene {example}, loss {float(evidence.error[example]):.2g}"
    return scene_figure(image, evidence.target[example], predictions, camera_of(run, example), title)


def save_scenes(run: Path, folder: Path, chosen: Sequence[int] = (0, 1, 2)) -> list[Path]:
    """Draw some test scenes of a finished clevr run as PNG files."""
    evidence = gather(read_run(run))
    if evidence is None or evidence.run.task != "clevr":
        raise UsageError(f"{run} is no finished run of clevr: there are no scenes to draw")
    if chosen and not 0 <= min(chosen) <= max(chosen) < len(evidence.target):
        raise UsageError(f"scenes {list(chosen)}: choose from 0 to {len(evidence.target) - 1}")
    written = []
    for example in chosen:
        with style(), replacing(folder / f"scene-{example}.png") as temporary:
            example_scene(evidence, example, [evidence.run]).savefig(temporary, format="png", dpi=160)
        written.append(folder / f"scene-{example}.png")
    return written


def camera_of(run: Run, example: int) -> ArrayLike:
    """Where the camera of a test scene stands; files do not say it."""
    if run["data.source"] != RENDERED:
        return camera.POSITION
    return SceneSplit(RENDERED, "val", run["data.test"], run["data.size"]).rendered().scene(example).camera


def _object(element: Tensor) -> dict[str, Any] | None:
    return next(iter(CLEVR_SCHEMA.decode(element[None])), None)


def _on_image(axes: "Axes", image: Tensor, pairs: Sequence[Pair], position: ArrayLike) -> None:
    frame = (0, camera.WIDTH, camera.HEIGHT, 0)
    axes.imshow(image.permute(1, 2, 0).numpy(), extent=frame, aspect="equal", interpolation="bilinear")
    _marks(axes, pairs, lambda point: camera.project(point, position)[:2])
    axes.set(xlim=frame[:2], ylim=frame[2:])
    axes.set_axis_off()


def _on_map(axes: "Axes", pairs: Sequence[Pair], position: ArrayLike) -> None:
    """From above, turned so that right and away are as in the image."""
    towards = camera.directions(position)
    turn = np.array([towards["right"], towards["behind"]])
    corners = np.array([(-3, -3, 0), (3, -3, 0), (3, 3, 0), (-3, 3, 0), (-3, -3, 0)])
    axes.plot(*(turn @ corners.T), color=FAINT, linewidth=1, zorder=0)
    for pair in pairs:
        if pair.true is not None:
            across, away = turn @ pair.true["3d_coords"]
            axes.scatter(across, away, s=AREAS["large"] * 1.8, facecolors="none", edgecolors=MUTED, linewidths=0.9)
            if pair.predicted is not None:
                line = turn @ np.array([pair.true["3d_coords"], pair.predicted["3d_coords"]]).T
                axes.plot(*line, color=MUTED, linewidth=0.9, zorder=1)
    _marks(axes, pairs, lambda point: turn @ point)
    axes.set(xlim=(-FARTHEST, FARTHEST), ylim=(-FARTHEST, FARTHEST), aspect="equal")
    axes.set_axis_off()


def _marks(axes: "Axes", pairs: Sequence[Pair], place: Any) -> None:
    """What is predicted, in its own colour, shape and size, with its number; a red edge where it is wrong."""
    for pair in pairs:
        if (seen := pair.predicted) is None:
            continue
        across, up = place(np.array(seen["3d_coords"]))
        colour = np.array(COLORS[seen["color"]]) / 255
        edge, width = (INK, 0.8) if pair.right else (ALARM, 1.8)
        look: dict[str, Any] = {"marker": MARKERS[seen["shape"]], "edgecolors": edge, "linewidths": width}
        axes.scatter(across, up, s=AREAS[seen["size"]], color=[colour], zorder=3, **look)
        ink = "black" if colour @ (0.3, 0.6, 0.1) > 0.5 else "white"
        options: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 5.5, "zorder": 4, "clip_on": True}
        axes.text(across, up, str(pair.number), color=ink, **options)


def _in_words(axes: "Axes", pairs: Sequence[Pair], lines: int, truth: bool) -> None:
    """A line an object: its number, its attributes, and how far it is from its place."""
    axes.set_axis_off()
    for row, pair in enumerate(pairs):
        words = [(str(pair.number), MUTED)]
        if pair.predicted is None:
            words.append(("missed", ALARM))
        else:
            bad = WORDS if pair.true is None else pair.wrong
            words += [(pair.predicted[word], ALARM if word in bad else INK) for word in WORDS]
            if pair.true is None:
                words.append(("extra", ALARM))
            elif not truth:
                words.append((f"{pair.distance:.2f}", INK if pair.distance <= NEAR else ALARM))
        for across, (word, colour) in zip(COLUMNS, words, strict=False):
            axes.text(across, 1 - (row + 0.5) / lines, word, color=colour, fontsize=6.5, transform=axes.transAxes)
