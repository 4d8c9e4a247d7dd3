"""Sorting networks: the comparisons that sort n values whatever they are, so that many sorts run in step."""


def odd_even_merge(n: int) -> tuple[tuple[int, int], ...]:
    """Batcher's odd-even merge sort as pairs (i, j), i < j: after all of them the smallest value is at 0.

    It has O(n log² n) pairs and works for every n: a power of two is built, and the pairs that reach past the
    end are left out, since values there would be the largest and never move.

    >>> odd_even_merge(3)
    ((0, 1), (0, 2), (1, 2))
    """
    pairs = []
    run = 1
    while run < n:
        step = run
        while step:
            for start in range(step % run, n - step, 2 * step):
                for i in range(start, min(start + step, n - step)):
                    if i // (2 * run) == (i + step) // (2 * run):
                        pairs.append((i, i + step))
            step //= 2
        run *= 2
    return tuple(pairs)


def bitonic_merge(n: int) -> tuple[tuple[int, int], ...]:
    """The pairs that sort n = 2ᵏ values which first rise and then fall, or the other way round.

    >>> bitonic_merge(4)
    ((0, 2), (1, 3), (0, 1), (2, 3))
    """
    steps = [n >> shift for shift in range(1, n.bit_length())]
    return tuple((i, i + step) for step in steps for i in range(n) if not i & step)
