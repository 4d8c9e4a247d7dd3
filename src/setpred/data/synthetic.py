"""The paper's random data: standard normal multisets, and classes to be numbered."""

import torch
from torch import Tensor
from torch.nn.functional import one_hot


def random_sets(count: int, size: int, dim: int, seed: int) -> Tensor:
    """`[count, size, dim]`, the same for the same seed.

    >>> random_sets(3, size=2, dim=4, seed=0).shape
    torch.Size([3, 2, 4])
    """
    return torch.randn(count, size, dim, generator=torch.Generator().manual_seed(seed))


def random_masks(count: int, smallest: int, size: int, seed: int) -> Tensor:
    """`[count, size]`, true for the first elements of each set; every number from `smallest` to `size` is as likely.

    >>> random_masks(100, smallest=2, size=4, seed=0).sum(dim=1).unique().tolist()
    [2, 3, 4]
    """
    counts = torch.randint(smallest, size + 1, (count, 1), generator=torch.Generator().manual_seed(seed))
    return torch.arange(size) < counts


def numbering(
    count: int, size: int, classes: int, seed: int, classes_per_example: int | None = None
) -> tuple[Tensor, Tensor]:
    """Class-specific numbering: [a, a, b, b, b] → [(a, 0), (a, 1), (b, 0), (b, 1), (b, 2)].

    Equal inputs must get different outputs, which no set-equivariant model can do. The result is inputs
    `[count, size, classes]` and targets `[count, size, size]`, both one-hot.

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


def mixed_seed(*numbers: int) -> int:
    """One seed of several numbers, all of which matter.

    >>> mixed_seed(0, 1) != mixed_seed(1, 0)
    True
    """
    seed = 0
    for number in numbers:
        seed = ((seed ^ number) * 0x9E3779B97F4A7C15 + 0x7F4A7C15) % 2**63
    return seed
