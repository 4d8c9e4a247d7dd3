"""Class-specific numbering: [a, a, b, b, b] → [(a, 0), (a, 1), (b, 0), (b, 1), (b, 2)].

Equal inputs must get different outputs, which no set-equivariant model can do.
"""

import torch
from torch import Tensor
from torch.nn.functional import one_hot


def numbering(
    count: int, size: int, classes: int, seed: int, classes_per_example: int | None = None
) -> tuple[Tensor, Tensor]:
    """Inputs `[count, size, classes]` and targets `[count, size, size]`, both one-hot.

    Args:
        count: examples.
        size: elements of a set; also the largest number plus one.
        classes: different elements there are.
        seed: the same seed gives the same examples.
        classes_per_example: draw that many of the classes for each example and its elements from those, instead of from
            all.

    Example:
        >>> inputs, targets = numbering(1, size=5, classes=2, seed=0)
        >>> inputs.argmax(-1).tolist(), targets.argmax(-1).tolist()
        ([[0, 1, 1, 0, 1]], [[0, 0, 1, 1, 2]])
    """
    generator = torch.Generator().manual_seed(seed)
    if classes_per_example is None or classes_per_example >= classes:
        ids = torch.randint(classes, (count, size), generator=generator)
    else:
        chosen = torch.rand(count, classes, generator=generator).argsort(dim=1)[:, :classes_per_example]
        ids = chosen.gather(1, torch.randint(classes_per_example, (count, size), generator=generator))
    inputs = one_hot(ids, classes)
    numbers = (inputs.cumsum(dim=1) * inputs).sum(dim=-1) - 1
    return inputs.float(), one_hot(numbers, size).float()
