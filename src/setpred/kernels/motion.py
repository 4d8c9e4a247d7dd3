"""What happens to a set between two gradients, in one pass over memory each, in place.

Float32 arrays `[batch, entries]`, an example a row.
"""

from __future__ import annotations

import numpy as np

from .jit import compiled


@compiled
def momentum_rows(sets, grad, velocity, clipped, lr, momentum, clip):
    """v = momentum · v + g, then Y = Y - lr (g + momentum · v), where g is the gradient made no longer than `clip`.

    `clipped[b]` counts the gradients of an example that were too long; a clip of 0 is none.
    """
    lr, momentum, clip = np.float32(lr), np.float32(momentum), np.float32(clip)
    for b in range(sets.shape[0]):
        y, g, v = sets[b], grad[b], velocity[b]
        scale = np.float32(1.0)
        if clip > 0:
            square = np.float32(0.0)
            for i in range(g.size):
                square += g[i] * g[i]
            norm = np.sqrt(square)
            clipped[b] += np.float32(norm > clip)
            if not norm + np.float32(1e-6) <= clip:  # also where it is not a number, to keep it so
                scale = clip / (norm + np.float32(1e-6))
        for i in range(g.size):
            step = scale * g[i]
            speed = momentum * v[i] + step
            v[i] = speed
            y[i] -= lr * (step + momentum * speed)


@compiled
def pull_rows(sets, start, given, weight, loss, grad):
    """Add weight · ½ mean (Y - Y0)² to the loss and its gradient to the gradient, which becomes zero where given.

    The mean runs over the entries that are not given. `start` or `given` of no rows is none.
    """
    pulled, partly = start.shape[0] > 0, given.shape[0] > 0
    for b in range(sets.shape[0]):
        g = grad[b]
        if pulled:
            y, y0 = sets[b], start[b]
            free = g.size
            if partly:
                free = max(free - given[b].sum(), 1)
            scale = np.float32(weight / free)
            square = np.float32(0.0)
            for i in range(g.size):
                way = y[i] - y0[i]
                if partly and given[b, i]:
                    way = np.float32(0.0)
                square += way * way
                g[i] += scale * way
            loss[b] += np.float32(0.5) * scale * square
        if partly:
            hidden = given[b]
            for i in range(g.size):
                if hidden[i]:
                    g[i] = np.float32(0.0)
