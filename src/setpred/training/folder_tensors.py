"""A split of a data folder as tensors, read once, every damaged file listed."""

import tempfile

import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from torch import Tensor

from ..data.folder import FolderDataset
from ..data.records import DataError, Problems
from ..data.threads import in_threads
from .experiment import Batch


@torch.inference_mode(False)  # Lightning asks for test data inside it, and other threads may not write to what it makes
def read_tensors(dataset: FolderDataset, count: int) -> Batch:
    """The first `count` examples: inputs (images in bytes), sets `[count, size, dim]` and masks `[count, size]`."""
    schema, images = dataset.schema, dataset.inputs.kind == "image"
    inputs = _on_disk((count, *dataset.inputs.shape)) if images else torch.empty(count, *dataset.inputs.shape)
    sets, masks = torch.empty(count, schema.size, schema.dim), torch.empty(count, schema.size, dtype=torch.bool)
    problems = Problems(dataset.path.parent)

    def read(index: int) -> DataError | None:
        try:
            made, sets[index], masks[index] = dataset[index]
        except DataError as error:
            return error
        inputs[index] = (255 * made).round().byte() if images else made
        return None

    done = in_threads(read, range(count)) if images else map(read, range(count))
    screen, few = Console(stderr=True), count < 1_000
    for error in track(done, f"reading {dataset.path.name}", count, console=screen, transient=True, disable=few):
        if error is not None:
            problems.take(error)
    problems.check()
    return inputs, sets, masks


def _on_disk(shape: tuple[int, ...]) -> Tensor:
    """Bytes in a file without a name, which memory holds as far as there is room."""
    with tempfile.TemporaryFile() as file:
        return torch.from_numpy(np.memmap(file, np.uint8, "w+", shape=shape))
