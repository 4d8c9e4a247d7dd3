"""Objects of data that someone brought: inputs, their objects on a map, and the objects in words."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..data.inputs import Kind
from ..data.jsonl_folder import Folder
from ..files import replacing
from ..letterbox import Size, pixel_on, scale_on
from ..matching import match
from ..schema import Category, Schema
from .style import (
    BLUE,
    BROWN,
    FAINT,
    GREEN,
    INK,
    MUTED,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    legend_below,
    panel,
    plain,
    style,
)
from .view import Batch, Examples, View, data_address, numbers, picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHOWN = 4
DRAWN = 500
"""So many objects of an example are drawn: thousands would take minutes and cover each other."""
LINES = 7
"""At most so many objects are listed in words."""
COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, BROWN)
MARKERS = ("o", "s", "D", "^")

Objects = Sequence[Mapping[str, Any]]


class ObjectsView(View):
    """The input, its objects on a map, and the objects in words, the predicted ones beside the true ones."""

    count = 2
    wide = True

    def first(self, settings: Any) -> str:
        return "the first examples of val.jsonl, and beside each what is predicted for it."

    def worst(self, settings: Any, among: str) -> str:
        return f"the two worst of {among} examples of val.jsonl, and beside each what is predicted."

    def draw(self, shown: Examples, chosen: Sequence[int], title: str, settings: Any) -> "Figure":
        assert shown.inputs is not None
        assert shown.schema is not None
        assert shown.sizes is not None
        titles, inputs, sizes, objects = [], [], [], []
        for example in chosen:
            given, size = shown.inputs[example], _pair(shown.sizes[example])
            schema = shown.schema.in_pixels(_pixel(given, size))
            for name, sets in (("true", shown.target), ("predicted", shown.predicted)):
                titles.append(f"{example + 1} {name}")
                inputs.append(given)
                sizes.append(size)
                objects.append(schema.decode(sets[example]))
        figure = example_figure(shown.schema, settings.data.kind, titles, inputs, objects, sizes)
        figure.suptitle(plain(title), x=0.01, ha="left", fontsize=9.5, fontweight="bold")
        return figure

    def state(self, experiment: Any, batch: Batch, index: int, steps: int) -> dict[str, Any]:
        """The objects at every iteration, each with the true one that it is matched with."""
        inputs, target, mask, sizes = batch
        trace, data = experiment.trace(batch, steps), experiment.settings.data
        found = experiment.sets(batch) if trace is None else trace.sets[:, 0]
        sets = found.nan_to_num(0.0, 1e3, -1e3).clamp(-1e3, 1e3)
        pairs = match(sets, target.expand_as(sets)).target
        partners = torch.take_along_dim(target.expand_as(sets), pairs[..., None], dim=1)
        image, size = data.kind == "image", _pair(sizes[0])
        written = experiment.predictor.schema
        schema = written.in_pixels(_pixel(inputs[0], size))
        return {
            "kind": "objects",
            "fields": list(schema.fields),
            "truth": [schema.decode(element[None], threshold=-1e4)[0] for element in target[0]],
            "there": mask[0].tolist(),
            "iterates": [schema.decode(elements, threshold=-1e4) for elements in sets],
            "presence": numbers(schema.confidence(sets), 3),
            "pairs": pairs.tolist(),
            "right": (schema.closeness(sets, partners, data.tolerance) >= 0.5).tolist(),
            "image": data_address(picture(_cropped(inputs[0], size))) if image else None,
            "input": None if image else numbers(inputs[0]),
            "size": size,
            "places": numbers(schema.position(sets), 2) if _on_image(written) else None,
        }


def draw_examples(folder: Folder, path: Path) -> None:
    """Draw some training examples, taken evenly from the whole file, as PNG."""
    split = folder.train
    chosen = sorted({int(i) for i in np.linspace(0, len(split) - 1, SHOWN)})
    read = [split.read(i) for i in chosen]
    records = [split.record(i) for i in chosen]
    titles = [str(record.get("id", f"line {split.line(i)}")) for i, record in zip(chosen, records, strict=True)]
    inputs, sizes, objects = [one[0] for one in read], [one[3] for one in read], [r["objects"] for r in records]
    with style(), replacing(path) as temporary:
        figure = example_figure(folder.schema, folder.inputs.kind, titles, inputs, objects, sizes)
        figure.savefig(temporary, format="png", dpi=160)


def example_figure(
    schema: Schema,
    kind: Kind,
    titles: Sequence[str],
    inputs: Sequence[Tensor],
    objects: Sequence[Objects],
    sizes: Sequence[Size],
) -> "Figure":
    """A column for each example: its input, its objects where they are, and in words.

    Places in pixels are marked in the image itself, of which `sizes` are the width and height in its file.
    """
    position = schema.position_field
    marked = _on_image(schema)
    mapped = position is not None and not marked
    lines = min(LINES, max(1, *map(len, objects)))
    words = [_in_words(schema, things, lines) for things in objects]
    width = max(1.8, *(0.2 + 0.062 * len(text) for texts in words for text in texts))  # inches that a column needs
    heights = [1.8, *([1.8] if mapped else []), 0.22 * lines]
    figure, axes = panel(
        len(heights),
        len(titles),
        width=max(width * len(titles), 4.6),
        height=sum(heights) + 0.8,
        squeeze=False,
        gridspec_kw={"height_ratios": heights},
    )
    for column, (title, given, things, size) in enumerate(zip(titles, inputs, objects, sizes, strict=True)):
        count = f"{len(things)} object{'' if len(things) == 1 else 's'}"
        if len(things) > DRAWN:
            things, count = things[:DRAWN], f"{DRAWN} of {count}"
        axes[0][column].set_title(plain(f"{title}: {count}"), fontsize=8.5, fontweight="normal")
        _draw_input(axes[0][column], kind, given, size)
        if marked:
            _mark(axes[0][column], schema, str(position), things)
        if mapped:
            _draw_map(axes[1][column], schema, str(position), things)
        _draw_words(axes[-1][column], words[column], lines)
    if mapped:
        _same_frame(axes[1], down=kind == "image" and schema.fields[str(position)].dim == 2)
    if (category := _category(schema)) is not None:
        names = {plain(f"{category} {name}"): (colour, marker) for name, colour, marker in _marks(schema)[:12]}
        for name, (colour, marker) in names.items():
            axes[-1][0].scatter([], [], color=colour, marker=marker, s=24, label=name)
        inches = 0.55 + 0.08 * max(map(len, names))
        legend_below(figure, axes[-1][0], columns=max(1, int(figure.get_figwidth() / inches)))
    return figure


def _draw_input(axes: "Axes", kind: Kind, given: Tensor, size: Size) -> None:
    axes.grid(False)
    if kind == "image":
        axes.imshow(_cropped(given, size).permute(1, 2, 0).numpy(), extent=(0, size[0], size[1], 0))
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set(visible=True, color=FAINT)
    elif kind == "vector":
        places = range(len(given))
        if len(given) <= 32:
            axes.bar(places, given.tolist(), color=MUTED, width=0.7)
        else:
            axes.plot(places, given.tolist(), color=MUTED, linewidth=1)
        axes.axhline(0, color=INK, linewidth=0.6)
        axes.tick_params(labelsize=7)
    else:
        points = given[given[:, -1] > 0, :-1]
        up = points[:, 1] if points.shape[1] > 1 else points[:, 0] * 0
        axes.scatter(points[:, 0], up, s=26, color=MUTED, marker="x")
        axes.margins(0.25)
        axes.tick_params(labelsize=7)


def _on_image(schema: Schema) -> bool:
    return schema.position_field in schema.pixel_fields


def _pair(size: Tensor) -> Size:
    width, height = size.tolist()
    return width, height


def _pixel(given: Tensor, size: Size) -> float:
    """The fraction of the longer side that a pixel of the image's file covers; 1 where the input is none."""
    return pixel_on((given.shape[2], given.shape[1]), size) if given.dim() == 3 else 1.0


def _cropped(given: Tensor, size: Size) -> Tensor:
    """The part of a canvas `[3, height, width]` that the image covers."""
    scale = scale_on((given.shape[2], given.shape[1]), size)
    return given[:, : max(1, round(scale * size[1])), : max(1, round(scale * size[0]))]


def _mark(axes: "Axes", schema: Schema, position: str, things: Objects) -> None:
    """Points and boxes in the image, in its pixels."""
    from matplotlib.patches import Rectangle

    for thing in things:
        colour, marker = _mark_of(schema, thing)
        across, down, *sides = thing[position]
        if not sides:
            axes.scatter(across, down, s=34, color=colour, marker=marker, edgecolors="white", linewidths=1.2, zorder=3)
            continue
        corner = (across - sides[0] / 2, down - sides[1] / 2)
        axes.add_patch(Rectangle(corner, *sides, fill=False, edgecolor=colour, linewidth=1.5))


def _draw_map(axes: "Axes", schema: Schema, position: str, things: Objects) -> None:
    for thing in things:
        place = np.atleast_1d(thing[position]).tolist()
        colour, marker = _mark_of(schema, thing)
        axes.scatter(place[0], place[1] if len(place) > 1 else 0, s=30, color=colour, marker=marker, zorder=3)
    axes.tick_params(labelsize=7)


def _same_frame(row: "Sequence[Axes]", down: bool) -> None:
    """One frame for all maps, so that they can be compared; `down` where the second number grows as in images."""
    bounds = [axes.dataLim for axes in row if axes.collections]
    if bounds:
        low = np.min([bound.min for bound in bounds], axis=0)
        high = np.max([bound.max for bound in bounds], axis=0)
        room = 0.1 * np.maximum(high - low, 1e-3 * np.maximum(np.abs(high), 1.0))
        for axes in row:
            axes.set(xlim=(low[0] - room[0], high[0] + room[0]), ylim=(low[1] - room[1], high[1] + room[1]))
            if down:
                axes.invert_yaxis()


def _in_words(schema: Schema, things: Objects, lines: int) -> list[str]:
    """One line per object, and the number of objects that have no line."""
    listed = list(things[: lines if len(things) <= lines else lines - 1])
    texts = [", ".join(_word(thing[name]) for name in schema.fields) for thing in listed]
    more = [f"and {len(things) - len(listed)} more"] if len(things) > len(listed) else []
    return [text if len(text) <= 44 else f"{text[:43]}…" for text in texts] + more


def _draw_words(axes: "Axes", texts: Sequence[str], lines: int) -> None:
    axes.set(xlim=(0, 1), ylim=(lines, 0))
    axes.set_axis_off()
    for line, text in enumerate(texts or ["no objects"]):
        axes.text(0, line + 0.5, plain(text), fontsize=7.5, va="center", color=INK if texts else MUTED)


def _word(value: Any) -> str:
    if isinstance(value, list):
        return f"({' '.join(_word(number) for number in value)})"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _category(schema: Schema) -> str | None:
    return next((name for name, field in schema.fields.items() if isinstance(field, Category)), None)


def _marks(schema: Schema) -> list[tuple[str | int, str, str]]:
    """A colour and a marker for each value of the first category; a value that names a colour has that one."""
    from matplotlib.colors import CSS4_COLORS

    category = _category(schema)
    names = () if category is None else schema.fields[category].names  # type: ignore[attr-defined]
    if all(name in CSS4_COLORS for name in names):
        return [(name, str(name), MARKERS[0]) for name in names]
    places = enumerate(names)
    return [(name, COLOURS[i % len(COLOURS)], MARKERS[i // len(COLOURS) % len(MARKERS)]) for i, name in places]


def _mark_of(schema: Schema, thing: Mapping[str, Any]) -> tuple[str, str]:
    category = _category(schema)
    for name, colour, marker in _marks(schema):
        if category is not None and thing[category] == name:
            return colour, marker
    return COLOURS[0], MARKERS[0]
