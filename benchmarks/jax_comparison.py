"""The inner loop beside the same loop in JAX, and our products beside XLA's, interleaved in one process.

    python benchmarks/jax_comparison.py FILE [SECONDS]

JAX is not a dependency: install it beside setpred (`pip install jax`). Its loop is what one would write there:
`jax.grad` of the encoder with `jnp.sort`, Nesterov's step, all iterations in one `fori_loop` under `jit`. The numbering
case has no simplex in either. `naive` is the loop as one would write it in PyTorch (`setpred/bench/cases.py`), which
has the structure of the paper's code: autograd, `torch.sort`, an optimiser of torch. On one core (`OMP_NUM_THREADS=1
taskset -c 0 python ...`) the processor's time is measured, which other processes do not lengthen.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import torch

from setpred.bench.cases import CASES, Case, Workload
from setpred.bench.instruments import interleaved
from setpred.bench.measure import machine
from setpred.decoder import SetDecoder
from setpred.inits import RandomInit
from setpred.solvers import Nesterov

SETTINGS = [(CASES[0], 40), (CASES[1], 40), (CASES[4], 40), (CASES[3], 40), (replace(CASES[5], known=0), 20)]


def weights(work: Workload) -> tuple[jax.Array, ...]:
    """W₁, b₁, W₂, b₂ and the weights of ranks."""
    parameters = list(work.encoder.parameters())  # those of the network, then those of the pooling
    return tuple(jnp.asarray(parameter.detach().numpy()) for parameter in parameters)


def inner_loss(parameters: tuple[jax.Array, ...], sets: jax.Array, z: jax.Array) -> jax.Array:
    w1, b1, w2, b2, ranked = parameters
    features = jax.nn.relu(sets @ w1.T + b1) @ w2.T + b2
    encoding = (jnp.sort(features, axis=1, descending=True) * ranked).sum(axis=1)
    return 0.5 * jnp.square(encoding - z).mean(axis=1).sum()


@partial(jax.jit, static_argnames=("steps", "clip"))
def minimise(
    parameters: tuple[jax.Array, ...], sets: jax.Array, z: jax.Array, steps: int, clip: float | None
) -> jax.Array:
    def step(_: Any, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        sets, velocity = state
        grad = jax.grad(inner_loss, argnums=1)(parameters, sets, z)
        if clip is not None:
            norm = jnp.sqrt(jnp.square(grad).sum(axis=(1, 2), keepdims=True))
            grad = grad * jnp.minimum(clip / (norm + 1e-6), 1.0)
        velocity = 0.9 * velocity + grad
        return sets - (grad + 0.9 * velocity), velocity

    return jax.lax.fori_loop(0, steps, step, (sets, jnp.zeros_like(sets)))[0]


@partial(jax.jit, static_argnames="steps")
def products(parameters: tuple[jax.Array, ...], sets: jax.Array, steps: int) -> jax.Array:
    w1, _, w2, _, _ = parameters
    return jax.lax.fori_loop(0, steps, lambda _, rows: (((rows @ w1.T) @ w2.T) @ w2) @ w1 * 1e-6, sets)


def ways(case: Case, steps: int) -> dict[str, Callable[[], Any]]:
    """The same sets, vectors and weights for all."""
    work = Workload(case)
    start = 0.1 * torch.randn(case.batch, case.size, case.dim)
    parameters, sets, z = weights(work), jnp.asarray(start.numpy()), jnp.asarray(work.z.numpy())
    decoder = SetDecoder(work.encoder, solver=Nesterov(steps, clip=case.clip), init=RandomInit())

    def ours() -> torch.Tensor:
        with torch.no_grad():
            return decoder(work.z, init=start)

    in_jax = partial(minimise, parameters, sets, z, steps, case.clip)
    loops = work.inner_loops(steps)
    difference = abs(torch.from_numpy(jax.device_get(in_jax()).copy()) - ours()).max().item()
    print(f"{case.name}, T={steps}: largest difference between the two {difference:.1e}", flush=True)
    return {
        "ours": ours,
        "jax": lambda: in_jax().block_until_ready(),
        "jax_products": lambda: products(parameters, sets.reshape(-1, case.dim), steps).block_until_ready(),
        "library_products": loops["floor"],
        "mm_products": loops["mm"],
        "naive": loops["naive"],
    }


def main(file: Path, seconds: float) -> None:
    about = {"command": f"python benchmarks/jax_comparison.py {file}", "jax": jax.__version__, "machine": machine()}
    rows = []
    for case, steps in SETTINGS:
        ms = interleaved(ways(case, steps), seconds)
        rows.append({"case": case.name, "steps": steps, **{f"{name}_ms": time for name, time in ms.items()}})
        print({name: round(time, 1) for name, time in ms.items()}, flush=True)
        file.write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 10.0)
