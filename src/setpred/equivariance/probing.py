"""Inputs that tell equivariances apart, and function calls in which rounding does not decide the verdict."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

SetFunction = Callable[..., Tensor]


def hard_sets(size: int, dim: int, copies: int = 4, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Multisets that test equivariance, with equal, nearly equal and partly equal elements.

    There are `copies` of each of seven kinds: random elements, with duplicates, with near-duplicates, all equal, all
    zero, small integers (so that elements have some entries in common), and different integers in each channel.

    Returns:
        `[7 * copies, size, dim]`.

    >>> hard_sets(size=5, dim=2).shape
    torch.Size([28, 5, 2])
    """
    if min(size, dim, copies) < 1:
        raise ValueError(f"hard_sets got size={size}, dim={dim}, copies={copies}: each must be at least 1")
    generator = torch.Generator().manual_seed(seed)
    # Rounding must not decide which of two near-duplicates is the larger.
    near = torch.finfo(dtype).eps ** (1 / 3)

    def normal() -> Tensor:
        return torch.randn(size, dim, generator=generator, dtype=dtype)

    def duplicates() -> Tensor:
        chosen = torch.randint(max(1, size // 2), (size,), generator=generator)
        return normal()[chosen]

    def distinct_integers() -> Tensor:
        return torch.rand(size, dim, generator=generator).argsort(dim=0).to(dtype)

    sets = []
    for _ in range(copies):
        sets += [
            normal(),
            duplicates(),
            duplicates() + near * normal(),
            normal()[:1].expand(size, dim),
            torch.zeros(size, dim, dtype=dtype),
            torch.randint(-1, 2, (size, dim), generator=generator).to(dtype),
            distinct_integers(),
        ]
    return torch.stack(sets)


def nearby(dtype: torch.dtype) -> float:
    """A small step that is still far larger than rounding: half the digits of the dtype."""
    return torch.finfo(dtype).eps ** 0.5


def rounding(inputs: Tensor, outputs: Tensor, relative: float | None = None) -> float:
    """The deviation in `outputs` that counts as rounding: half the digits of their dtype, times their scale.

    The second term is for outputs that are themselves only rounding, such as a centred constant.
    """
    relative = nearby(outputs.dtype) if relative is None else relative
    floor = 64 * torch.finfo(outputs.dtype).eps * float(inputs.abs().max())
    return relative * float(outputs.abs().max()) + floor


def given_sets(inputs: Tensor) -> Tensor:
    """The user's inputs as `[batch, n, dim]`, checked."""
    if not isinstance(inputs, Tensor) or not inputs.is_floating_point():
        kind = inputs.dtype if isinstance(inputs, Tensor) else type(inputs).__name__
        raise ValueError(f"inputs are {kind}: pass a tensor of floats")
    sets = inputs[None] if inputs.dim() == 2 else inputs
    if sets.dim() != 3 or 0 in sets.shape:
        raise ValueError(f"inputs have shape {list(inputs.shape)}: pass [batch, n, dim], none of them 0")
    if not sets.isfinite().all():
        raise ValueError("inputs contain NaN or infinity: pass finite sets")
    return sets.detach()


def answer(fn: SetFunction, sets: Tensor, *noise: Tensor) -> Tensor:
    """Call `fn` on copies of its arguments, and check that its result has the shape `[batch, n, out]`."""
    with SameRows():
        out = fn(sets.clone(), *(rows.clone() for rows in noise))
    expected = f"[{sets.shape[0]}, {sets.shape[1]}, out]"
    if not isinstance(out, Tensor):
        raise ValueError(f"fn returned {type(out).__name__}, not a tensor: return {expected}")
    if out.dim() != 3 or out.shape[:2] != sets.shape[:2]:
        raise ValueError(f"fn turned {list(sets.shape)} into {list(out.shape)}: it must return {expected}")
    out = out.detach()
    if not out.is_floating_point():
        out = out.to(sets.dtype)
    finite = out.isfinite().flatten(1).all(dim=1)
    if not finite.all():
        first = int((~finite).nonzero()[0])
        raise ValueError(
            f"fn returned NaN or infinity for input {first} of {len(sets)}: "
            "choose inputs that it is defined on with inputs=..."
        )
    return out


def working_dtype(fn: SetFunction, *arguments: Tensor) -> torch.dtype:
    """float64 if `fn` accepts and returns it, otherwise float32.

    A function with fewer digits may treat two different elements as equal, so its inputs get as few digits.
    """
    try:
        out = answer(fn, *arguments)
    except (RuntimeError, ValueError):  # float32 parameters met float64 inputs; any other error comes again
        return torch.float32
    return out.dtype


class SameRows(TorchDispatchMode):
    """Inside this context, equal rows of a float matrix on the CPU have equal products, wherever they are.

    Fast libraries compute the rows of a product in blocks, so the products of equal rows may differ in the last bit. A
    function that sorts would then rank equal elements by rounding, and the processor would decide its verdict.

    >>> rows, weight = torch.randn(1, 40, dtype=torch.float64).expand(99, 40).contiguous(), torch.randn(40, 70).double()
    >>> with SameRows():
    ...     product = rows @ weight
    >>> bool((product == product[0]).all())
    True
    """

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        compute = PRODUCTS.get(func, func)
        return (compute if compute is not func and _fit(*args[-2:]) else func)(*args, **(kwargs or {}))


def _fit(left: Tensor, right: Tensor) -> bool:
    """Whether the product exists, of floats on the CPU; what does not fit gets torch's own error."""
    alike = left.dtype == right.dtype and left.device.type == right.device.type == "cpu"
    return alike and left.is_floating_point() and left.shape[-1] == right.shape[-2]


def product(left: Tensor, right: Tensor) -> Tensor:
    """`left @ right`, of matrices or of a batch of them: column times row, added up one after the other.

    Each entry results from the same multiplications and additions in the same order, each rounded by the floating point
    standard. So nothing depends on the position of a row.
    """
    total = left.new_zeros(*left.shape[:-1], right.shape[-1])
    for column, row in zip(left.unsqueeze(-1).unbind(-2), right.unsqueeze(-3).unbind(-2), strict=True):
        total += column * row
    return total


def added_product(bias: Tensor, left: Tensor, right: Tensor, beta: float = 1, alpha: float = 1) -> Tensor:
    return beta * bias + alpha * product(left, right)


PRODUCTS: dict[Any, Callable[..., Tensor]] = {
    torch.ops.aten.mm.default: product,
    torch.ops.aten.bmm.default: product,
    torch.ops.aten.addmm.default: added_product,
    torch.ops.aten.baddbmm.default: added_product,
}
