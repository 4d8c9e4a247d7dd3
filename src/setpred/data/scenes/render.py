"""A ray tracer for a few solids on a grey stage.

Every light is a ball. How much of it a point sees is read from the closest approach of the line between them to
each solid, so shadows are soft without a random number and the same scene is always the same bits.

A solid is a row of numbers `[x, y, z, size, cos, sin, kind, reach, red, green, blue, metal]`: centre, size, turn
about the vertical, shape, radius of the sphere around it, colour. A lamp is a row `[x, y, z, radius, ax, ay, az,
range, red, green, blue]`: place, radius, the direction it comes from, the squared distance at which it has its
power, power. Flat rows, because compiled functions pass one array far faster than a structure of many.
"""

from __future__ import annotations

from math import cos, pi, sin, sqrt

import numpy as np

from ...kernels.jit import compiled
from . import studio
from .shapes import FAR, approach, hit, normal
from .studio import AMBIENT, BACKDROP, BLUR, BOUNCE, DARK, FLOOR, GLARE, GLOSS, METAL, SHEEN, UNDER

ON_NOTHING, ON_WALL, ON_FLOOR = -3, -2, -1
# Where the samples of a pixel lie, in half steps of a rotated grid, and to which side they look in a mirror.
ACROSS = (-3, 1, -1, 3, -2, 2, 0, 0)
DOWN = (-1, -3, 3, 1, -2, 2, -4, 4)
SIDEWAYS = (1.0, 0.0, -1.0, 0.0, 0.4, -0.4, -0.4, 0.4)
UPWARDS = (0.0, 1.0, 0.0, -1.0, 0.4, 0.4, -0.4, -0.4)

WALL_X, WALL_Y, WALL_AWAY, WALL_TURN, WALL_WIDTH, WALL_HEIGHT = BACKDROP


@compiled
def stage(ox, oy, oz, dx, dy, dz):
    """Where a unit ray meets the floor or the wall behind it: how far, and which of them."""
    t, which = (-oz / dz if dz < -1e-9 else FAR), ON_FLOOR
    ahead = dx * WALL_X + dy * WALL_Y
    if ahead > 1e-9:
        wall = (WALL_AWAY - ox * WALL_X - oy * WALL_Y) / ahead
        if wall < t:
            t, which = wall, ON_WALL
    if t >= FAR or oz + t * dz > WALL_HEIGHT or abs((oy + t * dy) * WALL_X - (ox + t * dx) * WALL_Y) > WALL_WIDTH:
        return FAR, ON_NOTHING
    return t, which


@compiled
def nearest(solids, skip, ox, oy, oz, dx, dy, dz):
    """The first thing along a unit ray, `skip` left out: how far, and which solid or part of the stage."""
    best, which = stage(ox, oy, oz, dx, dy, dz)
    for i in range(solids.shape[0]):
        x, y, z, size = solids[i, 0] - ox, solids[i, 1] - oy, solids[i, 2] - oz, solids[i, 3]
        along = x * dx + y * dy + z * dz
        square = solids[i, 7] * solids[i, 7] - (x * x + y * y + z * z - along * along)
        if square < 0.0 or along < 0.0 or i == skip or along - sqrt(square) > best:
            continue
        c, s, inverse = solids[i, 4], solids[i, 5], 1.0 / size
        t = size * hit(
            int(solids[i, 6]),
            (-c * x - s * y) * inverse, (s * x - c * y) * inverse, -z * inverse,
            c * dx + s * dy, c * dy - s * dx, dz,
        )  # fmt: skip
        if t < best:
            best, which = t, i
    return best, which


@compiled
def normal_of(solid, px, py, pz):
    """Normal of a solid at a point of its surface."""
    x, y, z, inverse = px - solid[0], py - solid[1], pz - solid[2], 1.0 / solid[3]
    c, s = solid[4], solid[5]
    a, b, nz = normal(int(solid[6]), (c * x + s * y) * inverse, (c * y - s * x) * inverse, z * inverse)
    return c * a - s * b, s * a + c * b, nz


@compiled
def light_seen(solids, skip, px, py, pz, dx, dy, dz, length, radius):
    """Share of a ball of light, `length` away in a unit direction, that no solid hides."""
    seen, widen = 1.0, radius / length
    for i in range(solids.shape[0]):
        x, y, z, reach = solids[i, 0] - px, solids[i, 1] - py, solids[i, 2] - pz, solids[i, 7]
        along = x * dx + y * dy + z * dz
        wide = reach + widen * max(along, 0.0)
        away = x * x + y * y + z * z - along * along
        if away > wide * wide or along < -reach or i == skip:
            continue
        half, inverse = sqrt(max(reach * reach - away, 0.25 * reach * reach)), 1.0 / solids[i, 3]
        low, high = max(along - half, 0.0) * inverse, min(along + half, length) * inverse
        if high <= low:
            continue
        c, s = solids[i, 4], solids[i, 5]
        t, gap = approach(
            int(solids[i, 6]),
            (-c * x - s * y) * inverse, (s * x - c * y) * inverse, -z * inverse,
            c * dx + s * dy, c * dy - s * dx, dz, low, high,
        )  # fmt: skip
        share = min(max(0.5 + 0.5 * gap / (widen * max(t, 1e-3)), 0.0), 1.0)
        seen *= share * share * (3.0 - 2.0 * share)
        if seen < 1e-3:
            return 0.0
    return seen


@compiled
def matte(solids, lamps, skip, px, py, pz, nx, ny, nz):
    """Linear RGB that a white matte surface sends back: lamps, the open surroundings, colour from solids near."""
    red = green = blue = 0.0
    for m in range(lamps.shape[0]):
        x, y, z = lamps[m, 0] - px, lamps[m, 1] - py, lamps[m, 2] - pz
        facing = x * nx + y * ny + z * nz
        ahead = x * lamps[m, 4] + y * lamps[m, 5] + z * lamps[m, 6]
        if facing <= 0.0 or ahead <= 0.0:
            continue
        square = x * x + y * y + z * z
        length = sqrt(square)
        light = facing * ahead * lamps[m, 7] / (square * square)
        if skip != ON_WALL:
            away = 1.0 / length
            light *= light_seen(solids, skip, px, py, pz, x * away, y * away, z * away, length, lamps[m, 3])
        red += light * lamps[m, 8]
        green += light * lamps[m, 9]
        blue += light * lamps[m, 10]
    hidden = 0.0
    for i in range(solids.shape[0] if skip != ON_WALL else 0):
        x, y, z, size = solids[i, 0] - px, solids[i, 1] - py, solids[i, 2] - pz, solids[i, 3]
        square, facing = x * x + y * y + z * z, x * nx + y * ny + z * nz
        if facing <= 0.0 or square > 36.0 * size * size or i == skip:
            continue
        share = min(facing * size * size / (square * sqrt(square)), 0.7)
        hidden += share
        # Right under a solid it is dark: what hides nearly everything is itself in shadow.
        bounce = BOUNCE * share * (1.0 - share)
        red += bounce * solids[i, 8]
        green += bounce * solids[i, 9]
        blue += bounce * solids[i, 10]
    free = max(1.0 - hidden, 0.1)
    # What faces down looks into its own shadow.
    above, below = free * (0.5 + 0.5 * nz), free * (0.5 - 0.5 * nz) * (1.0 + 0.6 * min(nz, 0.0))
    return (
        red + above * AMBIENT[0] + below * UNDER[0],
        green + above * AMBIENT[1] + below * UNDER[1],
        blue + above * AMBIENT[2] + below * UNDER[2],
    )


@compiled
def paint(solids, lamps, which, px, py, pz, vx, vy, vz):
    """Linear RGB of a point of the stage or of a solid, which is taken as rubber, seen along a unit direction."""
    if which == ON_NOTHING:
        return DARK, DARK, DARK
    if which < 0:
        # The floor turns into the wall; only the normal follows the turn.
        climb = min(max(px * WALL_X + py * WALL_Y - WALL_AWAY + WALL_TURN, 0.0) + pz, 2.0 * WALL_TURN)
        back, up = 0.0, 1.0
        if climb >= 2.0 * WALL_TURN:
            back, up = -1.0, 0.0
        elif climb > 0.0:
            turn = 0.25 * pi * climb / WALL_TURN
            back, up = -sin(turn), cos(turn)
        red, green, blue = matte(solids, lamps, which, px, py, pz, back * WALL_X, back * WALL_Y, up)
        return FLOOR * red, FLOOR * green, FLOOR * blue
    nx, ny, nz = normal_of(solids[which], px, py, pz)
    red, green, blue = matte(solids, lamps, which, px, py, pz, nx, ny, nz)
    x, y, z = lamps[0, 0] - px, lamps[0, 1] - py, lamps[0, 2] - pz
    length = 1.0 / sqrt(x * x + y * y + z * z)
    x, y, z = x * length - vx, y * length - vy, z * length - vz
    shine = SHEEN * max((x * nx + y * ny + z * nz) / sqrt(x * x + y * y + z * z), 0.0) ** 16
    return solids[which, 8] * red + shine, solids[which, 9] * green + shine, solids[which, 10] * blue + shine


@compiled
def mirror(solids, lamps, which, sample, px, py, pz, vx, vy, vz):
    """Linear RGB of a metal point: what its reflected ray meets, and the image of every lamp."""
    nx, ny, nz = normal_of(solids[which], px, py, pz)
    along = 2.0 * (vx * nx + vy * ny + vz * nz)
    rx, ry, rz = vx - along * nx, vy - along * ny, vz - along * nz
    # The samples of a pixel look to different sides of the reflected ray: together they blur.
    flat = max(sqrt(rx * rx + ry * ry), 1e-9)
    a, b = BLUR * SIDEWAYS[sample], BLUR * UPWARDS[sample]
    sx, sy, sz = rx + (-a * ry - b * rx * rz) / flat, ry + (a * rx - b * ry * rz) / flat, rz + b * flat
    length = 1.0 / sqrt(sx * sx + sy * sy + sz * sz)
    sx, sy, sz = sx * length, sy * length, sz * length
    if sx * nx + sy * ny + sz * nz <= 0.0:
        sx, sy, sz = rx, ry, rz
    t, met = nearest(solids, which, px, py, pz, sx, sy, sz)
    red, green, blue = paint(solids, lamps, met, px + t * sx, py + t * sy, pz + t * sz, sx, sy, sz)
    for m in range(lamps.shape[0]):
        x, y, z = lamps[m, 0] - px, lamps[m, 1] - py, lamps[m, 2] - pz
        ahead = x * lamps[m, 4] + y * lamps[m, 5] + z * lamps[m, 6]
        square = x * x + y * y + z * z
        if met >= 0 or ahead <= 0.0 or x * nx + y * ny + z * nz <= 0.0:
            continue
        length = sqrt(square)
        width = GLOSS * GLOSS + 0.25 * lamps[m, 3] * lamps[m, 3] / square
        lobe = 1.0 + (1.0 - (x * rx + y * ry + z * rz) / length) / width
        light = GLARE * ahead * lamps[m, 7] / (2.0 * square * length * width * lobe * lobe)
        red += light * lamps[m, 8]
        green += light * lamps[m, 9]
        blue += light * lamps[m, 10]
    return METAL * solids[which, 8] * red, METAL * solids[which, 9] * green, METAL * solids[which, 10] * blue


@compiled
def ray(view, width, height, column, row):
    """Unit direction through a point of the image, given in pixels."""
    a = (column / width - 0.5) / studio.FOCAL
    b = (0.5 - row / height) * studio.HEIGHT / (studio.WIDTH * studio.FOCAL)
    x = a * view[0, 0] + b * view[1, 0] + view[2, 0]
    y = a * view[0, 1] + b * view[1, 1] + view[2, 1]
    z = a * view[0, 2] + b * view[1, 2] + view[2, 2]
    length = 1.0 / sqrt(x * x + y * y + z * z)
    return x * length, y * length, z * length


@compiled
def identify(solids, eye, view, ids, away):
    """What the centre of each pixel shows, a solid or a part of the stage, and how far it is.

    Written into `ids` and `away`, both `[height, width]`; the parts of the stage are negative.
    """
    height, width = ids.shape
    for row in range(height):
        for column in range(width):
            dx, dy, dz = ray(view, width, height, column + 0.5, row + 0.5)
            away[row, column], ids[row, column] = nearest(solids, -1, eye[0], eye[1], eye[2], dx, dy, dz)


@compiled
def find_edges(ids):
    """Whether a pixel and one of the eight around it show different solids, or only one of them the stage."""
    height, width = ids.shape
    edges = np.zeros((height, width), np.bool_)
    for row in range(height):
        for column in range(width):
            me = max(ids[row, column], ON_FLOOR)
            # Half of the neighbours: the other half look back.
            for down, across in ((0, 1), (1, -1), (1, 0), (1, 1)):
                i, j = row + down, column + across
                if i < height and 0 <= j < width and max(ids[i, j], ON_FLOOR) != me:
                    edges[row, column] = edges[i, j] = True
    return edges


@compiled
def trace(solids, lamps, eye, view, srgb, image):
    """Render into `image` `[height, width, 3]`, bytes; several rays where a pixel shows an edge or metal.

    `srgb` is the table of bytes for linear values between 0 and 1.
    """
    height, width = image.shape[0], image.shape[1]
    ids, away = np.empty((height, width), np.int64), np.empty((height, width))
    identify(solids, eye, view, ids, away)
    edges = find_edges(ids)
    top = srgb.shape[0] - 1
    for row in range(height):
        for column in range(width):
            me, rough = ids[row, column], edges[row, column]
            shiny = me >= 0 and solids[me, 11] > 0.0
            count = 8 if shiny else 4 if rough else 1
            red = green = blue = 0.0
            for n in range(count):
                t, which, u, v = away[row, column], me, 0.5, 0.5
                if count > 1:
                    # As wide as the filter that shrinks an image by bilinear interpolation.
                    u, v = 0.5 + 0.175 * ACROSS[n], 0.5 + 0.175 * DOWN[n]
                dx, dy, dz = ray(view, width, height, column + u, row + v)
                if count > 1:
                    t, which = nearest(solids, -1, eye[0], eye[1], eye[2], dx, dy, dz)
                px, py, pz = eye[0] + t * dx, eye[1] + t * dy, eye[2] + t * dz
                if which >= 0 and solids[which, 11] > 0.0:
                    a, b, c = mirror(solids, lamps, which, n, px, py, pz, dx, dy, dz)
                else:
                    a, b, c = paint(solids, lamps, which, px, py, pz, dx, dy, dz)
                red, green, blue = red + a, green + b, blue + c
            image[row, column, 0] = srgb[int(top * min(red / count, 1.0) + 0.5)]
            image[row, column, 1] = srgb[int(top * min(green / count, 1.0) + 0.5)]
            image[row, column, 2] = srgb[int(top * min(blue / count, 1.0) + 0.5)]
