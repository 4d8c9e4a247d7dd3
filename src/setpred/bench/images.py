"""A training step of the reader of images beside its floor: its floating-point work at the rate of large products."""

from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from ..data.clevr import CLEVR_SCHEMA
from ..image_reader import ImageReader
from ..tensors import keep_freed_memory
from ..trunks import has_bfloat16
from .clock import interleaved

SIDE = 2_048
"""Of the square matrices whose product says how fast this machine can be."""


def image_step(batch: int, seconds: float) -> dict[str, Any]:
    """Images of 192×128 pixels; the products are in bfloat16 where the reader's are."""
    torch.manual_seed(0)
    keep_freed_memory()
    reader = ImageReader(CLEVR_SCHEMA)
    reader.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = torch.optim.AdamW(reader.parameters(), fused=True)
    images = torch.rand(batch, 3, 128, 192)
    target = torch.rand(batch, CLEVR_SCHEMA.size, CLEVR_SCHEMA.dim)

    def step() -> None:
        optimizer.zero_grad()
        reader.loss(images, target).backward()
        optimizer.step()

    fast = has_bfloat16(images.device)
    matrix = torch.rand(SIDE, SIDE, dtype=torch.bfloat16 if fast else torch.float32)
    with FlopCounterMode(display=False) as counter:
        step()
    ms = interleaved({"step": step, "product": lambda: matrix @ matrix}, seconds)
    floor = ms["product"] * counter.get_total_flops() / (2 * SIDE**3)
    return {
        "batch": batch,
        "bfloat16": fast,
        "step_ms": ms["step"],
        "floor_ms": floor,
        "over_floor": ms["step"] / floor,
        "images_per_second": 1e3 * batch / ms["step"],
    }
