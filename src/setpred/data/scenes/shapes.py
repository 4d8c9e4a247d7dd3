"""The three solids in their own coordinates: size 1, upright, centred on the origin.

A cube or a cylinder with rounded edges is everything within some radius of a smaller sharp solid. All three are
convex, so the signed distance is a convex function along a line: marching never overshoots, and the closest
approach of a line has no second minimum.
"""

from __future__ import annotations

from math import sqrt

from ...kernels.jit import compiled

CUBE, SPHERE, CYLINDER = 0, 1, 2
HALF = 0.99
CUBE_ROUND = 0.18
CYLINDER_ROUND = 0.05
CUBE_CORE = HALF - CUBE_ROUND
CYLINDER_CORE = 1.0 - CYLINDER_ROUND
CUBE_BOUND = sqrt(3.0) * CUBE_CORE + CUBE_ROUND
CYLINDER_BOUND = sqrt(2.0) * CYLINDER_CORE + CYLINDER_ROUND

FAR = 1e9
SURFACE = 1e-3
GOLDEN = 0.6180339887


@compiled
def distance(kind, x, y, z):
    """Signed distance from a point to the surface, negative inside."""
    if kind == SPHERE:
        return sqrt(x * x + y * y + z * z) - 1.0
    if kind == CUBE:
        a, b, c = abs(x) - CUBE_CORE, abs(y) - CUBE_CORE, abs(z) - CUBE_CORE
        inside = min(max(a, max(b, c)), 0.0)
        a, b, c = max(a, 0.0), max(b, 0.0), max(c, 0.0)
        return inside + sqrt(a * a + b * b + c * c) - CUBE_ROUND
    a, b = sqrt(x * x + y * y) - CYLINDER_CORE, abs(z) - CYLINDER_CORE
    inside = min(max(a, b), 0.0)
    a, b = max(a, 0.0), max(b, 0.0)
    return inside + sqrt(a * a + b * b) - CYLINDER_ROUND


@compiled
def normal(kind, x, y, z):
    """Outward unit normal at a point of the surface."""
    if kind == SPHERE:
        a, b, c = x, y, z
    elif kind == CUBE:
        a, b, c = max(abs(x) - CUBE_CORE, 0.0), max(abs(y) - CUBE_CORE, 0.0), max(abs(z) - CUBE_CORE, 0.0)
        a, b, c = (-a if x < 0 else a), (-b if y < 0 else b), (-c if z < 0 else c)
    else:
        radius = sqrt(x * x + y * y)
        side, c = max(radius - CYLINDER_CORE, 0.0), max(abs(z) - CYLINDER_CORE, 0.0)
        a, b, c = side * x / max(radius, 1e-9), side * y / max(radius, 1e-9), (-c if z < 0 else c)
    length = max(sqrt(a * a + b * b + c * c), 1e-12)
    return a / length, b / length, c / length


@compiled
def slab(half, o, d):
    """Where a line is between two parallel planes: first and last `t`."""
    if abs(d) < 1e-12:
        return (-FAR, FAR) if abs(o) <= half else (FAR, -FAR)
    a, b = (-half - o) / d, (half - o) / d
    return min(a, b), max(a, b)


@compiled
def hit(kind, ox, oy, oz, dx, dy, dz):
    """Distance along a unit ray to the surface, or `FAR`.

    The sharp solid is met in closed form; from there a few marching steps find the rounded edge.
    """
    if kind == SPHERE:
        b = ox * dx + oy * dy + oz * dz
        square = b * b - (ox * ox + oy * oy + oz * oz - 1.0)
        if square < 0.0:
            return FAR
        t = -b - sqrt(square)
        return t if t > 0.0 else FAR
    if kind == CUBE:
        first, last = slab(HALF, oz, dz)
        a, b = slab(HALF, ox, dx)
        first, last = max(first, a), min(last, b)
        a, b = slab(HALF, oy, dy)
        first, last = max(first, a), min(last, b)
    else:
        first, last = slab(1.0, oz, dz)
        a = dx * dx + dy * dy
        b = ox * dx + oy * dy
        c = ox * ox + oy * oy - 1.0
        square = b * b - a * c
        if square < 0.0:
            return FAR
        if a > 1e-12:
            root = sqrt(square)
            first, last = max(first, (-b - root) / a), min(last, (-b + root) / a)
    t = max(first, 0.0)
    while t <= last:
        step = distance(kind, ox + t * dx, oy + t * dy, oz + t * dz)
        if step < SURFACE:
            return t
        t += step
    return FAR


@compiled
def approach(kind, ox, oy, oz, dx, dy, dz, low, high):
    """Where a line comes closest to the surface between `low` and `high`: `t` and signed distance."""
    if kind == SPHERE:
        t = min(max(-(ox * dx + oy * dy + oz * dz), low), high)
        return t, distance(kind, ox + t * dx, oy + t * dy, oz + t * dz)
    a, b = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_a = distance(kind, ox + a * dx, oy + a * dy, oz + a * dz)
    at_b = distance(kind, ox + b * dx, oy + b * dy, oz + b * dz)
    for _ in range(5):
        if at_a < at_b:
            high, b, at_b = b, a, at_a
            a = high - GOLDEN * (high - low)
            at_a = distance(kind, ox + a * dx, oy + a * dy, oz + a * dz)
        else:
            low, a, at_a = a, b, at_b
            b = low + GOLDEN * (high - low)
            at_b = distance(kind, ox + b * dx, oy + b * dy, oz + b * dz)
    return (a, at_a) if at_a < at_b else (b, at_b)
