"""The benchmark: inner loop and training step against the floor, memory against iterations, growth with every size."""

import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from .. import __version__
from ..decoder import DSPN, iDSPN
from ..encoders import SetEncoder
from ..errors import UsageError
from ..files import replacing
from ..solvers import Nesterov
from ..views.style import BLUE, GREY, MUTED, VERMILION, panel, style
from .cases import CASES, Case, Workload
from .floor import image_step
from .instruments import clock, interleaved, peak_bytes

Report = Callable[[str], None]
QUICK_CASES = [replace(CASES[1], batch=64), replace(CASES[5], batch=16)]


def measure(quick: bool = False, say: Report = lambda line: None, device: str = "cpu") -> dict[str, Any]:
    """All figures as one JSON-ready table; `say` gets a line as each is there.

    On a device other than the CPU: inner loops and training steps.
    """
    seconds = 0.5 if quick else 6.0
    found = machine(device)
    results: dict[str, Any] = {"machine": found, "quick": quick, "inner_loop": [], "training_step": []}
    say(f"{found['processor']}: {' '.join(found['instructions']) or 'its instruction sets are not known'}")
    for case in QUICK_CASES if quick else CASES:
        work = Workload(case, device)
        for steps in (10,) if quick else (10, 40):
            row = inner_loop(work, steps, seconds)
            results["inner_loop"].append(row)
            say(
                f"{case.name}, T={steps}: inner loop {row['over_floor']:.2f} × the products, naive "
                f"{row['naive_over_floor']:.2f} ×, the products by torch.mm alone {row['mm_over_floor']:.2f} × "
                f"(fastest: {', '.join(row['libraries'])})"
            )
            row = training_step(work, steps, seconds)
            results["training_step"].append(row)
            say(
                f"{case.name}, T={steps}: training step {row['ours_ms']:.0f} ms, {row['naive_over_ours']:.2f} × faster "
                f"than naive, {row['unrolled_over_ours']:.2f} × than unrolled, matching {row['matching_share']:.1%}"
            )
    if device != "cpu":
        return results
    row = results["image_step"] = image_step(8 if quick else 32, seconds)
    say(
        f"a training step of the image reader: {row['over_floor']:.2f} × its floating-point work, "
        f"{row['images_per_second']:.0f} images a second"
    )
    results["memory"] = memory((10, 100) if quick else (10, 100, 1000))
    say(
        f"memory of iDSPN from T=10 to T={results['memory'][-1]['steps']}: {results['memory'][-1]['idspn_growth']:+.2%}"
    )
    results["one_example"] = one_example(seconds)
    say(f"one example: {results['one_example']['over_floor']:.2f} × its products")
    results["first_call"] = first_call(fresh=not quick)
    say(", ".join(f"first call {name} {value:.1f} s" for name, value in results["first_call"].items()))
    if not quick:
        results["growth"] = growth(seconds / 6, say)
    return results


def inner_loop(work: Workload, steps: int, seconds: float) -> dict[str, Any]:
    """Against two floors: of the fastest libraries, and of `torch.mm` alone, which was the only one before."""
    ms = interleaved(work.inner_loops(steps), seconds, waiting(work.z.device))
    libraries = work.floor.libraries
    if ms["mm"] < ms["floor"]:  # the choice was made on a shorter run
        ms["floor"], libraries = ms["mm"], ["torch.mm"] * len(libraries)
    return {
        "case": work.case.name,
        "steps": steps,
        "libraries": libraries,
        **{f"{name}_ms": value for name, value in ms.items()},
        "over_floor": ms["ours"] / ms["floor"],
        "over_mm": ms["ours"] / ms["mm"],
        "mm_over_floor": ms["mm"] / ms["floor"],
        "naive_over_floor": ms["naive"] / ms["floor"],
    }


def training_step(work: Workload, steps: int, seconds: float) -> dict[str, Any]:
    ms = interleaved({**work.training_steps(steps), "matching": work.matching()}, seconds, waiting(work.z.device))
    return {
        "case": work.case.name,
        "steps": steps,
        **{f"{name}_ms": value for name, value in ms.items()},
        "naive_over_ours": ms["naive"] / ms["ours"],
        "unrolled_over_ours": ms["unrolled"] / ms["ours"],
        "dspn_over_ours": ms["dspn"] / ms["ours"],
        "matching_share": ms["matching"] / ms["ours"],
    }


def memory(counts: tuple[int, ...]) -> list[dict[str, Any]]:
    """Peak bytes of a training step against the iterations; unrolled ones up to 100."""

    def step(decoder_class: type, steps: int) -> int:
        torch.manual_seed(0)
        encoder = SetEncoder(dim=8, hidden=128, latent=128, size=8)
        decoder = decoder_class(encoder, size=8, dim=8, solver=Nesterov(steps))
        z = torch.randn(32, 128, requires_grad=True)
        return peak_bytes(lambda: decoder(z).square().mean().backward())

    base = step(iDSPN, counts[0])
    rows = []
    for steps in counts:
        idspn = step(iDSPN, steps)
        dspn = step(DSPN, steps) if steps <= 100 else None
        rows.append({"steps": steps, "idspn_bytes": idspn, "dspn_bytes": dspn, "idspn_growth": idspn / base - 1})
    return rows


def one_example(seconds: float) -> dict[str, Any]:
    """Decoding a batch of one, as those do who only predict."""
    return inner_loop(Workload(replace(CASES[1], name="one example, n=8", batch=1)), 40, min(seconds, 2.0))


FIRST_CALL = """
import time
import torch, setpred as sp
encoder = sp.SetEncoder(dim=8, hidden=64, latent=64, size=8)
decoder = sp.iDSPN(encoder)
z = torch.randn(4, 64)
clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
started = clock()
with torch.no_grad():
    decoder(z)
print(clock() - started)
"""


def first_call(fresh: bool) -> dict[str, float]:
    """Seconds of the first decoding in a new process: with nothing compiled yet, and with the compiled code on disk."""

    def seconds(cache: str | None) -> float:
        environment = os.environ if cache is None else {**os.environ, "NUMBA_CACHE_DIR": cache}
        done = subprocess.run(
            [sys.executable, "-c", FIRST_CALL], env=environment, capture_output=True, text=True, check=True
        )
        return float(done.stdout)

    if not fresh:
        return {"cached": seconds(None)}
    with tempfile.TemporaryDirectory() as cache:
        return {"compiling": seconds(cache), "cached": seconds(cache)}


def growth(seconds: float, say: Report) -> list[dict[str, Any]]:
    """How the inner loop grows with the size of the set, the element and the batch."""
    base = Case("", size=8, dim=8, hidden=256, batch=32)
    variants = {
        "size": [replace(base, size=n) for n in (1, 4, 16, 64, 256, 1024, 4096)],
        "dim": [replace(base, dim=d) for d in (1, 4, 16, 64, 256)],
        "batch": [replace(base, batch=b) for b in (1, 8, 64, 512, 4096)],
    }
    rows = []
    for name, cases in variants.items():
        for case in cases:
            loops = Workload(replace(case, name=f"{name}={getattr(case, name)}")).inner_loops(10)
            ms = interleaved({name: loops[name] for name in ("floor", "ours")}, seconds)
            over = ms["ours"] / ms["floor"]
            rows.append({"grows": name, "value": getattr(case, name), "ours_ms": ms["ours"], "over_floor": over})
        say(f"{name}: " + ", ".join(f"{r['value']}: {r['ours_ms']:.1f} ms" for r in rows if r["grows"] == name))
    return rows


def checked_device(device: str) -> str:
    """The name of a device that torch has here."""
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise UsageError(f"--device {device}: torch cannot use it here ({reason}); leave it out for the CPU") from None
    return device


def waiting(device: torch.device) -> Callable[[], Any] | None:
    """What returns when the device has done its work, where it is not the CPU."""
    return None if device.type == "cpu" else torch.accelerator.synchronize


def machine(device: str = "cpu") -> dict[str, Any]:
    return {
        "device": device if device == "cpu" else torch.cuda.get_device_name(device) if "cuda" in device else device,
        "setpred": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "processor": processor(),
        "instructions": instructions(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "clock": clock().__name__,
        "capability": torch.backends.cpu.get_cpu_capability(),
        "spin_count": os.environ.get("GOMP_SPINCOUNT"),
    }


def processor() -> str:
    """The name of the processor, where the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def instructions() -> list[str]:
    """The vector and matrix instructions of the processor, as far as compiled code uses them."""
    import llvmlite.binding

    sets = ("sse4.2", "avx", "fma", "avx2", "avx512", "avxvnni", "amx", "neon", "sve", "bf16", "i8mm")
    features = llvmlite.binding.get_host_cpu_features()
    return sorted(name for name, there in features.items() if there and name.startswith(sets))


def write(results: dict[str, Any], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


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
