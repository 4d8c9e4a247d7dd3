"""Rendered scenes as files in CLEVR's layout."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from ...files import replacing
from ..threads import in_threads
from . import camera
from .picture import picture
from .world import sample

Progress = Callable[[int, int], None]


def write(
    out: str | Path,
    count: int,
    size: int = 128,
    seed: int = 0,
    split: str = "train",
    objects: tuple[int, int] = (3, 10),
    workers: int | None = None,
    progress: Progress | None = None,
) -> Path:
    """Render `count` scenes into the new folder `out`: `images/{split}/…png`, `scenes/CLEVR_{split}_scenes.json`.

    A further split may go beside those already there; a split is never overwritten, and appears only when it is
    complete. `progress` is called with how many are done and how many there are.
    """
    out = Path(out)
    images, listing = out / "images" / split, out / "scenes" / f"CLEVR_{split}_scenes.json"
    if not split.isidentifier():
        raise ValueError(f"split {split!r} is no name for a folder: use letters, such as train or val")
    if images.exists() or listing.exists():
        raise ValueError(f"{out} already holds the split {split}: choose another folder or split")
    if out.exists() and not (out.is_dir() and {entry.name for entry in out.iterdir()} <= {"images", "scenes"}):
        raise ValueError(f"{out} exists and is no CLEVR folder: choose a new folder")
    _check_other_splits(listing.parent, seed)
    images.parent.mkdir(parents=True, exist_ok=True)
    listing.parent.mkdir(exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{split}-", dir=images.parent))
    unfinished.chmod(0o755)
    try:
        save = partial(_save, unfinished, split, seed, size, objects)
        scenes = []
        for scene in in_threads(save, range(count), workers):
            scenes.append(scene)
            if progress is not None:
                progress(len(scenes), count)
        text = json.dumps({"info": {"split": split, "version": "1.0", "seed": seed}, "scenes": scenes})
        with replacing(listing) as temporary:
            temporary.write_text(text, encoding="utf-8")
            unfinished.replace(images)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return out


def _check_other_splits(listings: Path, seed: int) -> None:
    """Raise where a split of the same seed lies there: the new one would begin with the same scenes."""
    for path in listings.glob("CLEVR_*_scenes.json"):
        try:
            info = json.loads(path.read_text(encoding="utf-8"))["info"]
        except (ValueError, KeyError, TypeError):  # not one of ours
            continue
        if info.get("seed") == seed:
            raise ValueError(f"{path} holds the scenes of seed {seed} already: give this split another seed")


def _save(folder: Path, split: str, seed: int, size: int, objects: tuple[int, int], index: int) -> dict[str, Any]:
    """Render one scene into `folder`; its entry in the list of scenes."""
    from PIL import Image

    scene = sample(seed, index, objects)
    name = f"CLEVR_{split}_{index:06d}.png"
    Image.fromarray(picture(scene, size)).save(folder / name, compress_level=3)  # 6 takes a third of all the time
    return {
        "split": split,
        "image_index": index,
        "image_filename": name,
        "directions": camera.directions(scene.camera),
        "camera": scene.camera.tolist(),
        "objects": scene.objects,
    }
