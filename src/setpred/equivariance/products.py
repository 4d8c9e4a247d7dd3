"""Matrix products whose rows do not depend on their place.

The rows of a product are computed in blocks by fast libraries, and equal rows may come out different in the last bit. A
function that sorts then ranks equal elements by rounding, and its verdict would be that of the processor.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


class SameRows(TorchDispatchMode):
    """Inside, equal rows of floats on the CPU have equal products, wherever they stand.

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

    Each entry is made by the same multiplications and additions, each of them rounded as the standard of floating point
    numbers demands: there is nothing that could depend on the place.
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
