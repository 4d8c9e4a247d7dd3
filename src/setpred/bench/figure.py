"""The benchmark as a picture."""

from pathlib import Path
from typing import Any

from ..files import replacing
from ..views.style import BLUE, GREY, MUTED, VERMILION, panel, style


def draw(results: dict[str, Any], path: Path) -> Path:
    """Inner loop against its products, training step against the rivals, and growth where it was measured."""
    growth = results.get("growth", [])
    with style():
        figure, axes = panel(1, 3 if growth else 2, width=12.5 if growth else 8.5, height=3.6)
        _bars(axes[0], results["inner_loop"], {"over_floor": ("ours", BLUE), "naive_over_floor": ("naive", GREY)})
        axes[0].axhline(1.0, color=MUTED, linewidth=0.8)
        axes[0].set(title="Inner loop", ylabel="times its matrix products")
        rivals = {"naive_over_ours": ("naive", GREY), "unrolled_over_ours": ("unrolled DSPN", VERMILION)}
        _bars(axes[1], results["training_step"], rivals)
        axes[1].axhline(1.0, color=MUTED, linewidth=0.8)
        axes[1].set(title="Training step", ylabel="time of the rival ÷ ours")
        for name, colour in (("size", BLUE), ("dim", VERMILION), ("batch", GREY)) if growth else ():
            points = [(row["value"], row["ours_ms"]) for row in growth if row["grows"] == name]
            axes[2].loglog(*zip(*points, strict=True), marker="o", markersize=3, color=colour, label=name)
        if growth:
            axes[2].set(title="Growth of 10 iterations", xlabel="size, dim or batch", ylabel="milliseconds")
            axes[2].legend()
        with replacing(path) as temporary:
            figure.savefig(temporary, format="png", dpi=150)
    return path


def _bars(axes: Any, rows: list[dict[str, Any]], columns: dict[str, tuple[str, str]]) -> None:
    names = [f"{row['case'].replace('autoencoding ', '')}\nT={row['steps']}" for row in rows]
    wide = 0.8 / len(columns)
    for i, (column, (label, colour)) in enumerate(columns.items()):
        places = [at + i * wide for at in range(len(rows))]
        axes.bar(places, [row[column] for row in rows], wide, color=colour, label=label)
    axes.set_xticks([at + 0.4 - wide / 2 for at in range(len(rows))], names, fontsize=6, rotation=45, ha="right")
    axes.margins(y=0.25)
    axes.legend(ncols=2, loc="upper left")
