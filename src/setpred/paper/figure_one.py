"""Figure 1 of the paper from whatever runs there are: losses at equal iterations, and at equal computation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..views.style import INK, MUTED, PAPER, model_style, panel
from .tables import Comparison, Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MODELS = {"dspn": "DSPN", "idspn": "iDSPN", "idspn+momentum": "iDSPN + momentum"}
"""By their published names, in the order of the paper."""
ITERATIONS = (10, 20, 40)
USUAL, HARD = (4, 4), (16, 32)
"""n and d of the panels. In the hard one n·d is the size of the latent vector, and DSPN is ahead."""
Group = tuple[str, Mapping[str, int]]
"""Models that stand side by side: what they are called together, and the iterations of each."""


@dataclass(frozen=True)
class Panel:
    """One panel: its title, its n and d, and its groups."""

    title: str
    size: tuple[int, int]
    groups: Sequence[Group]


EQUAL = tuple((f"T={steps}", dict.fromkeys(MODELS, steps)) for steps in ITERATIONS)
TWICE = tuple(
    (f"DSPN T={steps}\niDSPN T={2 * steps}", {m: steps * (1 if m == "dspn" else 2) for m in MODELS})
    for steps in ITERATIONS[:-1]
)
"""An iteration of DSPN costs about two of iDSPN."""
PANELS = (
    Panel("equal iterations", USUAL, EQUAL),
    Panel("equal computation", USUAL, TWICE),
    Panel("equal iterations", HARD, EQUAL),
)


def figure_one(comparison: Comparison) -> "Figure":
    """Our means as discs beside the published diamonds; a diamond without a disc has not been run."""
    rows = rows_by_place(comparison)
    figure, axes = panel(1, len(PANELS), width=7.8, height=3.4)
    for cell, one in zip(axes, PANELS, strict=True):
        _draw(cell, one, rows)
    marker_style = {"linestyle": "", "color": INK, "label": "published, mean ± std of 8 seeds"}
    axes[0].plot([], [], marker="D", markersize=5, markerfacecolor=PAPER, **marker_style)
    handles, names = axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower left", ncols=4)
    gone = missing(comparison)
    count = len(gone)
    figure.suptitle(
        f"Loss, lower is better. {places(PANELS) - count} of {places(PANELS)} cells are run"
        + (", the others show what was published." if count else "."),
        x=0.01,
        ha="left",
        fontsize=9,
        color=MUTED,
    )
    return figure


def missing(comparison: Comparison) -> list[str]:
    """The cells of the figure that have no finished run."""
    rows = rows_by_place(comparison)
    wanted = {(m, *one.size, steps): None for one in PANELS for _, group in one.groups for m, steps in group.items()}
    return [
        f"{MODELS[model]} n={n} d={d} T={steps}"
        for model, n, d, steps in wanted
        if (row := rows.get((model, n, d, steps))) is None or row.mean is None
    ]


def places(panels: Sequence[Panel]) -> int:
    """How many different cells the panels show."""
    return len({(m, one.size, steps) for one in panels for _, group in one.groups for m, steps in group.items()})


def rows_by_place(comparison: Comparison) -> dict[tuple[str, int, int, int], Row]:
    """By model, n, d and iterations."""
    return {(row.cell.model, *(row.cell.at[axis] for axis in ("n", "d", "steps"))): row for row in comparison.rows}


def _draw(axes: "Axes", one: Panel, rows: Mapping[tuple[str, int, int, int], Row]) -> None:
    n, d = one.size
    for place, (_, group) in enumerate(one.groups):
        for order, (model, steps) in enumerate(group.items()):
            row = rows.get((model, n, d, steps))
            if row is None:
                continue
            across = place + 0.24 * (order - 1)
            colour, _ = model_style(row.ours)
            _published(axes, across, row, colour)
            if row.mean is not None:
                axes.errorbar(
                    across + 0.07,
                    row.mean,
                    yerr=row.std,
                    fmt="o",
                    markersize=7,
                    color=colour,
                    elinewidth=1.4,
                    capsize=2.5,
                    zorder=4,
                )
    for model, name in MODELS.items():
        ours = next((row.ours for key, row in rows.items() if key[0] == model), model)
        axes.plot([], [], "o", color=model_style(ours)[0], label=f"{name}, ours")
    axes.set_xticks(range(len(one.groups)), [name for name, _ in one.groups])
    axes.set(xlim=(-0.6, len(one.groups) - 0.4), yscale="log", title=f"n={n}, d={d}\n{one.title}")
    axes.grid(False, axis="x")


def _published(axes: "Axes", across: float, row: Row, colour: str) -> None:
    marker_style: dict[str, Any] = {"fmt": "D", "markersize": 5, "markerfacecolor": PAPER, "markeredgecolor": colour}
    if row.cell.mean is not None:
        axes.errorbar(
            across, row.cell.mean, yerr=row.cell.std, ecolor=colour, elinewidth=1, capsize=2.5, **marker_style
        )
