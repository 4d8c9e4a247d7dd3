"""Predicted scenes: on the image, on a map seen from above, and in words, what is wrong in red."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from ..data.clevr import CLEVR_SCHEMA
from ..data.scene_cache import RENDERED, SceneSplit
from ..data.scenes import studio
from ..matching import match
from ..predictor import SetPredictor
from ..schema import Category
from .style import ALARM, FAINT, INK, MUTED, panel
from .view import Batch, Examples, View, data_address, numbers, picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FRAME = (studio.WIDTH, studio.HEIGHT)
ATTRIBUTES = {name: field for name, field in CLEVR_SCHEMA.fields.items() if isinstance(field, Category)}
LEGEND = (
    "Circles are spheres, squares cubes, diamonds cylinders; the map is seen from above, with rings where the objects "
    "are. What is red is wrong: an attribute, a distance above 0.5, an object that is missed or not there."
)
WORDS = ("size", "color", "material", "shape")
MARKERS = {"sphere": "o", "cube": "s", "cylinder": "d"}
AREAS = {"large": 105, "small": 50}
NEAR = 0.5
"""A prediction farther away than this is wrong."""
FARTHEST = 4.6
COLUMNS = (0.0, 0.09, 0.27, 0.47, 0.66, 0.9)


class ScenesView(View):
    """One scene, at several iterations where the model has them."""

    count = 1
    wide = True

    def first(self, settings: Any) -> str:
        return f"the first test scene. {LEGEND}"

    def worst(self, settings: Any, among: str) -> str:
        return f"the worst of {among} test scenes. {LEGEND}"

    def draw(self, shown: Examples, chosen: Sequence[int], title: str, settings: Any) -> "Figure":
        (example,) = chosen
        predictions = {name: sets[example] for name, sets in shown.iterates.items()}
        image = None if shown.inputs is None else shown.inputs[example]
        title = f"{title}, test scene {example}, loss {float(shown.error[example]):.2g}"
        return scene_figure(image, shown.target[example], predictions, camera_of(settings, example), title)

    def state(self, experiment: Any, batch: Batch, index: int, steps: int) -> dict[str, Any]:
        (inputs, target), settings = batch, experiment.settings
        image = data_address(picture(inputs[0])) if settings.data.images else None
        position = camera_of(settings, index)
        state = scene_state(iterates(experiment.predictor, inputs, steps), target[0], position)
        return {"kind": "scene", **state, "image": image}


def camera_of(settings: Any, example: int) -> ArrayLike:
    """Where the camera of a test scene stands; files do not say it."""
    data = settings.data
    if data.source != RENDERED:
        return studio.POSITION
    return SceneSplit(RENDERED, "val", data.test, data.size, data.stretched).rendered().scene(example).camera


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
    partner = match(predicted[None], target[None]).target[0]
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
    position: ArrayLike = studio.POSITION,
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
            draw_on_image(axes[0][column], image, pairs if column else [], position)
        _on_map(axes[-2][column], pairs, position)
        _in_words(axes[-1][column], pairs, lines, truth=column == 0)
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=9.5, fontweight="bold")
    return figure


@torch.no_grad()
def iterates(model: SetPredictor, inputs: Tensor, steps: int) -> Tensor:
    """What a model has found of one example after every iteration, or at once: `[iterates, 10, 19]`."""
    if model.decoder is None:
        return model(inputs)
    trace = model.decoder.solve(model.encode(inputs), steps=steps, trace=True).trace
    assert trace is not None
    return trace.sets[:, 0]


def scene_state(sets: Tensor, truth: Tensor | None = None, position: ArrayLike = studio.POSITION) -> dict[str, Any]:
    """Objects at every iteration, for the page; `sets` is `[iterates, 10, 19]`, `truth` `[10, 19]`."""
    sets = sets.nan_to_num(0.0, 1e3, -1e3).clamp(-1e3, 1e3)
    towards = studio.directions(position)
    state = {
        "frame": FRAME,
        "turn": [towards["right"][:2], towards["behind"][:2]],
        "attributes": {name: list(field.names) for name, field in ATTRIBUTES.items()},
        "iterates": described(sets, position),
        "truth": None,
    }
    if truth is not None:
        pairs = match(sets, truth.expand_as(sets)).target
        state |= {"truth": described(truth[None], position), "pairs": pairs.tolist()}
    return state


def described(sets: Tensor, position: ArrayLike) -> dict[str, Any]:
    """Elements `[iterates, 10, 19]` by what they say: place, pixel, presence, attributes and how sure they are."""
    places = CLEVR_SCHEMA.position(sets)
    sure = [field.probability(sets[..., CLEVR_SCHEMA.slices[name]]) for name, field in ATTRIBUTES.items()]
    return {
        "places": numbers(places, 3),
        "pixels": numbers(torch.from_numpy(studio.project(places.double().numpy(), position)[..., :2]), 1),
        "presence": numbers(CLEVR_SCHEMA.confidence(sets), 3),
        "attributes": CLEVR_SCHEMA.attributes(sets).tolist(),
        "sure": numbers(torch.stack(sure, dim=-1), 2),
    }


def _object(element: Tensor) -> dict[str, Any] | None:
    return next(iter(CLEVR_SCHEMA.decode(element[None])), None)


def draw_on_image(axes: "Axes", image: Tensor, pairs: Sequence[Pair], position: ArrayLike) -> None:
    """The image, and on it what is predicted."""
    frame = (0, studio.WIDTH, studio.HEIGHT, 0)
    axes.imshow(image.permute(1, 2, 0).numpy(), extent=frame, aspect="equal", interpolation="bilinear")
    _marks(axes, pairs, lambda point: studio.project(point, position)[:2])
    axes.set(xlim=frame[:2], ylim=frame[2:])
    axes.set_axis_off()


def _on_map(axes: "Axes", pairs: Sequence[Pair], position: ArrayLike) -> None:
    """From above, turned so that right and away are as in the image."""
    towards = studio.directions(position)
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
        colour = np.array(studio.COLORS[seen["color"]]) / 255
        edge, width = (INK, 0.8) if pair.right else (ALARM, 1.8)
        style: dict[str, Any] = {"marker": MARKERS[seen["shape"]], "edgecolors": edge, "linewidths": width}
        axes.scatter(across, up, s=AREAS[seen["size"]], color=[colour], zorder=3, **style)
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
