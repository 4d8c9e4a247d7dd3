"""Sets of different sizes in one tensor: padding, and masks that say which elements exist."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import default_collate

from .notices import warn_renamed
from .tensors import check_device, check_tensor


def pad_sets(sets: Sequence[Any], size: int | None = None) -> tuple[Tensor, Tensor]:
    """Stack sets of different sizes, padded with zeros.

    Args:
        sets: one [n_i, dim] tensor (or array) per example; an empty set is [0, dim].
        size: elements per set after padding; by default the largest n_i.

    Returns:
        The sets, [batch, size, dim], and a mask, [batch, size] bool, true where an element exists.

    >>> sets, mask = pad_sets([torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0]])])
    >>> sets.squeeze(-1)
    tensor([[1., 2.],
            [3., 0.]])
    >>> mask
    tensor([[ True,  True],
            [ True, False]])
    """
    tensors = [torch.as_tensor(elements) for elements in sets]
    if not tensors:
        raise ValueError("pad_sets got no sets, so their dimension is unknown: pass at least one")
    first = tensors[0]
    for example, elements in enumerate(tensors):
        if elements.ndim != 2:
            raise ValueError(f"set {example} has shape {list(elements.shape)}: expected [elements, dim]")
        if elements.shape[1] != first.shape[1]:
            raise ValueError(
                f"set {example} has {elements.shape[1]} dimensions per element, set 0 has {first.shape[1]}: "
                "make them equal"
            )
        if elements.dtype != first.dtype:
            raise ValueError(f"set {example} is {elements.dtype}, set 0 is {first.dtype}: convert one of them")
        check_device(f"set {example}", elements, "set 0", first)
    counts = [len(elements) for elements in tensors]
    largest = max(counts)
    if size is None:
        size = largest
    elif largest > size:
        raise ValueError(
            f"set {counts.index(largest)} has {largest} elements, more than size={size}: raise size or drop some"
        )
    padded = first.new_zeros(len(tensors), size, first.shape[1])
    for example, elements in enumerate(tensors):
        padded[example, : counts[example]] = elements
    mask = torch.arange(size, device=first.device) < torch.tensor(counts, device=first.device)[:, None]
    return padded, mask


def collate_sets(examples: Sequence[tuple[Any, Any]], size: int | None = None) -> tuple[Any, Tensor, Tensor]:
    """The `collate_fn` of a DataLoader over (input, set) pairs whose sets differ in size.

    Inputs are batched as usual, sets as in `pad_sets`. Without `size`, each batch is padded to its own largest set. To
    pad all batches alike, pass `functools.partial(collate_sets, size=10)` to the DataLoader.

    Returns:
        inputs, sets [batch, size, dim], mask [batch, size].

    >>> from torch.utils.data import DataLoader
    >>> data = [(torch.zeros(5), torch.ones(2, 3)), (torch.zeros(5), torch.ones(4, 3))]
    >>> inputs, sets, mask = next(iter(DataLoader(data, batch_size=2, collate_fn=collate_sets)))
    >>> inputs.shape, sets.shape, mask.sum(1)
    (torch.Size([2, 5]), torch.Size([2, 4, 3]), tensor([2, 4]))
    """
    for example, pair in enumerate(examples):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise ValueError(f"example {example} of the batch is not an (input, set) pair: return two things")
    inputs = [pair[0] for pair in examples]
    shapes = [list(x.shape) for x in inputs if isinstance(x, Tensor)]
    for example, shape in enumerate(shapes):
        if shape != shapes[0]:
            raise ValueError(
                f"input {example} has shape {shape}, input 0 has {shapes[0]}: make them equal, or batch ragged "
                "inputs with pad_sets in a collate_fn of your own"
            )
    sets, mask = pad_sets([pair[1] for pair in examples], size)
    return default_collate(inputs), sets, mask


def check_mask(name: str, mask: Any, shape: Sequence[int]) -> None:
    """Raise unless it is a tensor of bool of that shape."""
    check_tensor(name, mask)
    if mask.dtype != torch.bool or mask.shape != tuple(shape):
        raise ValueError(
            f"{name} is {list(mask.shape)} {mask.dtype}: pass {list(shape)} torch.bool, true where an element exists"
        )


def masks_of_both(
    mask: Tensor | None,
    prediction_mask: Tensor | None,
    target_mask: Tensor | None,
    prediction: Tensor,
    target: Tensor,
) -> tuple[Tensor, Tensor]:
    """Which predictions, of `[batch, n, ...]`, and which targets, of `[batch, m, ...]`, exist.

    `mask` is for both sets, `prediction_mask` and `target_mask` for one each. Without a mask, all elements exist.
    """
    alone = mask is not None and prediction_mask is None and target_mask is None
    if alone and prediction.shape[1] != target.shape[1]:
        warn_renamed("the mask of targets that are not as many as the predictions", "target_mask", stacklevel=3)
        mask, target_mask = None, mask
    full = []
    for name, own, sets in (("prediction_mask", prediction_mask, prediction), ("target_mask", target_mask, target)):
        name, given = ("mask", mask) if own is None else (name, own)
        if given is None:
            given = torch.ones(sets.shape[:2], dtype=torch.bool, device=sets.device)
        check_mask(name, given, sets.shape[:2])
        check_device(name, given, "the sets", sets)
        full.append(given)
    return full[0], full[1]
