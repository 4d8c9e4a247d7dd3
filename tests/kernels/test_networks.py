"""Sorting networks order everything."""

import itertools

from setpred.kernels.networks import odd_even_merge


def test_the_network_sorts_every_input():
    for n in range(1, 11):  # the zero-one principle: sorting all of these is sorting everything
        for bits in itertools.product((0, 1), repeat=n):
            values = list(bits)
            for i, j in odd_even_merge(n):
                values[i], values[j] = min(values[i], values[j]), max(values[i], values[j])
            assert values == sorted(bits)
