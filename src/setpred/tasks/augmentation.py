"""Images changed a little in training, with the places of their objects: moved, mirrored, brighter or darker."""

import torch
from torch import Tensor

from ..data.clevr import CLEVR_SCHEMA
from ..data.scenes import studio
from ..schema import Angle, Category, Flag, Schema
from ..views.view import Batch

FARTHEST = 1 / 8
"""Images are moved by up to this fraction of their longer side."""
BRIGHTNESS = 0.2
"""Images are made brighter or darker by up to this fraction."""


def can_move(schema: Schema) -> bool:
    """Whether an image may be moved with its objects: their one place is in pixels, and nothing else is a number.

    Any other number might be a place, too, or a distance from one.
    """
    others = [field for name, field in schema.fields.items() if name != schema.position_field]
    return schema.pixel_fields == [schema.position_field] and all(
        isinstance(f, Category | Flag | Angle) for f in others
    )


def moved(schema: Schema, images: Tensor, sets: Tensor, mask: Tensor) -> Batch:
    """Images `[batch, 3, height, width]` moved by a few pixels, no object out of sight, and their sets `[batch, …]`.

    What comes into the image repeats its edge.
    """
    height, width = images.shape[2:]
    longer = max(height, width)
    assert schema.position_field is not None
    where = schema.slices[schema.position_field]
    places = (sets[..., where] + 1) * longer / 2  # in pixels of the canvas
    halves = places[..., 2:] / 2 if places.shape[-1] == 4 else torch.zeros_like(places)
    absent = ~mask.unsqueeze(-1)
    low = (places[..., :2] - halves).masked_fill(absent, torch.inf).amin(1)
    high = (places[..., :2] + halves).masked_fill(absent, -torch.inf).amax(1)
    by = FARTHEST * longer * (2 * torch.rand(len(sets), 2, device=sets.device) - 1)
    room = torch.tensor([width, height]).to(high) - high
    by = torch.maximum(torch.minimum(by, room.clamp(min=0)), -low.clamp(min=0)).trunc()  # [batch, 2]: x, y
    columns, rows = (
        (torch.arange(side, device=sets.device) - by[:, i : i + 1]).clamp(0, side - 1).long()
        for i, side in enumerate((width, height))
    )
    example = torch.arange(len(sets), device=images.device)[:, None, None]
    images = images.permute(0, 2, 3, 1)[example, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)
    sets = sets.clone()
    sets[..., where.start : where.start + 2] += (by * 2 / longer).unsqueeze(1) * mask.unsqueeze(-1)
    return images, sets


def mirrored(images: Tensor, sets: Tensor, which: Tensor) -> Batch:
    """Some examples of CLEVR as in a mirror that stands upright between the camera and the middle of the scene."""
    which = which.to(sets.device)
    across = torch.tensor(studio.axes()[0]).to(sets)
    places = CLEVR_SCHEMA.slices["3d_coords"]
    turned = sets.clone()
    turned[..., places] -= 2 * (sets[..., places] @ across).unsqueeze(-1) * across
    images = torch.where(which.view(-1, 1, 1, 1), images.flip(3), images)
    return images, torch.where(which.view(-1, 1, 1), turned, sets)


def brightened(images: Tensor) -> Tensor:
    """Images `[batch, 3, height, width]`, each brighter or darker as a whole."""
    light = 1 + BRIGHTNESS * (2 * torch.rand(len(images), 1, 1, 1) - 1)
    return images * light.to(images.device)
