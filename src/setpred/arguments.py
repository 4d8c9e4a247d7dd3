"""Checks of what a decoder is built from and called with: every error is one line that says what to do."""

from numbers import Integral
from typing import Any

import torch
from torch import Tensor, nn

from .adjoints import Adjoint
from .constraints import Constraint
from .descent import all_finite
from .errors import ExampleError
from .inits import Init
from .kernels.jit import refuse_transforms
from .objective import takes_mask
from .padding import check_mask
from .restart import Restart
from .solvers import MOST_STEPS, Solver
from .tensors import check_device, check_tensor, ordinary

Known = tuple[Tensor, Tensor]
KINDS = {
    "encoder": nn.Module,
    "solver": Solver,
    "init": Init,
    "constraint": Constraint,
    "adjoint": Adjoint,
    "restart": Restart,
}


def check_parts(**parts: Any) -> None:
    """Raise unless the parts of a decoder are what they should be; None stands for the default."""
    for name, part in parts.items():
        if part is not None and not isinstance(part, KINDS[name]):
            found = f"the class {part.__name__}" if isinstance(part, type) else f"of type {type(part).__name__}"
            raise ValueError(f"{name} is {found}: pass an instance of {KINDS[name].__name__}")


def checked_shape(encoder: nn.Module, size: int | None, dim: int | None) -> tuple[int, int]:
    """Elements of a set and numbers in an element, as given or as the encoder's attributes of these names say."""
    shape = []
    for name, given in (("size", size), ("dim", dim)):
        own = getattr(encoder, name, None)
        own = own if isinstance(own, Integral) else None
        number = own if given is None else given
        if number is None:
            raise ValueError(f"{type(encoder).__name__} does not say its {name}: pass {name}= to the decoder")
        if not isinstance(number, Integral) or number < 1:
            raise ValueError(f"{name} is {number!r}: a set needs at least one element of one number")
        if own is not None and own != number and hasattr(encoder, "size") and hasattr(encoder, "dim"):
            raise ValueError(
                f"the encoder is built for {name}={own}, the decoder for {name}={number}: "
                f"leave {name}= out of the decoder"
            )
        shape.append(int(number))
    return shape[0], shape[1]


def checked_steps(steps: int) -> int:
    if not isinstance(steps, Integral) or not 1 <= int(steps) <= MOST_STEPS:
        raise ValueError(f"steps is {steps!r}, it must be a whole number from 1 to {MOST_STEPS:,}")
    return steps


def check_vectors(z: Tensor, encoder: nn.Module) -> None:
    """Raise unless z is `[batch, latent]`, finite, and of the encoder's device and type."""
    refuse_transforms("a set decoder")
    if not isinstance(z, Tensor) or z.ndim != 2 or not z.is_floating_point():
        found = f"{list(z.shape)} {z.dtype}" if isinstance(z, Tensor) else type(z).__name__
        raise ValueError(f"z is {found}, the decoder takes vectors [batch, latent] of floating point numbers")
    parameter = next(encoder.parameters(), z)
    check_device("z", z, "the encoder", parameter)
    if z.dtype not in (parameter.dtype, torch.float16, torch.bfloat16):  # half precision comes from autocast
        raise ValueError(f"z is {z.dtype}, the encoder {parameter.dtype}: convert one of them")
    finite = all_finite(z)
    if not finite.all():
        example = int((~finite).nonzero()[0])
        text = f"z of example {example} holds NaN or infinity: look at the network before the decoder"
        raise ExampleError(text, example)


def checked_mask(mask: Tensor, z: Tensor, size: int, encoder: nn.Module) -> Tensor:
    """The mask, `[batch, size]`, where z is."""
    check_mask("mask", mask, (len(z), size))
    if not takes_mask(encoder):
        raise ValueError(
            f"{type(encoder).__name__} takes no mask: give its forward a second argument to decode sets of "
            "different sizes"
        )
    return ordinary(mask).to(z.device)


def checked_known(known: Known, z: Tensor, shape: torch.Size, constraint: Constraint | None) -> Known:
    """Values and which of them are given, both of `shape`, where z is."""
    if not isinstance(known, tuple | list) or len(known) != 2:
        raise ValueError(f"known is {type(known).__name__}: pass a pair, values and a mask of what is given")
    values, given = known
    check_tensor("the values of known", values)
    check_tensor("the mask of known", given)
    if given.dtype != torch.bool:
        raise ValueError(f"the mask of known is {given.dtype}, it must be torch.bool")
    try:
        values, whole = torch.broadcast_to(values, shape), torch.broadcast_to(given, shape)
    except RuntimeError:
        raise ValueError(
            f"known holds values {list(values.shape)} and a mask {list(given.shape)}: both must fit {list(shape)}"
        ) from None
    elements = torch.broadcast_to(given, (*given.shape[:-1], shape[-1]))  # one will do where all are alike
    if constraint is not None and not constraint.can_hold(elements):
        raise ValueError(f"known gives a part of numbers that {constraint} ties together: give all of them or none")
    values, whole = ordinary(values).to(z).contiguous(), ordinary(whole).to(z.device).contiguous()
    if not all_finite(values).all() and not values.detach().isfinite().logical_or(~whole).all():
        raise ValueError("known holds NaN or infinity where it says a value is given")
    return values, whole


def checked_start(init: Tensor, z: Tensor, shape: torch.Size) -> Tensor:
    """The initial sets of `shape`, where z is."""
    check_tensor("init", init)
    if init.shape not in (shape, shape[1:]):
        raise ValueError(f"init is {list(init.shape)}, the decoder takes {list(shape)} or {list(shape[1:])}")
    if not init.detach().isfinite().all():
        raise ValueError("init holds NaN or infinity: start from finite sets")
    return ordinary(init).to(z).expand(shape)
