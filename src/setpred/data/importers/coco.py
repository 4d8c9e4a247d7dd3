"""COCO detection JSON to a data folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...schema import Category, Real, Schema
from ...values import finite, read_json, short
from ..inputs import image_size, path_inside
from ..records import DataError, Problems
from .write import Imported, image_name, write_folder


def from_coco(json_path: str | Path, images_dir: str | Path, out: str | Path, val: float = 0.1) -> Imported:
    """COCO detections to a data folder; a fraction `val` of the images goes to val.jsonl.

    An object has a `category` and a `box` (middle x, middle y, width, height) in the pixels of its image.
    Boxes are cut at the image's edge; crowds and boxes without area are left out, as detectors do.
    """
    json_path, images_dir = Path(json_path), Path(images_dir)
    content = _read_json(json_path)
    problems = Problems(json_path)
    images = _coco_images(content, images_dir, problems)
    categories = _coco_categories(content, problems)
    objects: dict[Any, list[dict[str, Any]]] = {key: [] for key in images}
    left_out = 0
    for i, annotation in enumerate(content["annotations"]):
        try:
            key, item = _coco_object(annotation, images, categories)
        except ValueError as error:
            problems.add(f"annotation {i}", None, str(error))
            continue
        if item is None:
            left_out += 1
        else:
            objects[key].append(item)
    problems.check()
    size = max((len(items) for items in objects.values()), default=0)
    if not size:
        raise DataError(json_path, ["no image has a box: a schema needs objects"])
    schema = Schema({"box": Real(4, pixels=True), "category": Category(*categories.values())}, size=size)
    records = [{"id": key, "image": image["file_name"], "objects": objects[key]} for key, image in images.items()]
    notes = [f"{left_out} crowds and boxes without area were left out"] if left_out else []
    return write_folder(Path(out), records, schema, val, notes, images_dir)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = read_json(path.read_bytes())
    except OSError as error:
        raise DataError(path, [f"cannot be read ({error.strerror}): check the path"]) from None
    except ValueError as error:
        raise DataError(path, [str(error)]) from None
    keys = ("images", "annotations", "categories")
    if not isinstance(content, dict) or not all(isinstance(content.get(key), list) for key in keys):
        raise DataError(path, [f"needs the lists {', '.join(keys)}: give a COCO detection file"])
    return content


def _coco_images(content: dict[str, Any], images_dir: Path, problems: Problems) -> dict[Any, dict[str, Any]]:
    images: dict[Any, dict[str, Any]] = {}
    for i, image in enumerate(content["images"]):
        try:
            if not isinstance(image, dict) or not isinstance(image.get("id"), str | int):
                raise ValueError(f"{short(image)} has no id: add it")
            if image["id"] in images:
                raise ValueError(f"the id {short(image['id'])} is there twice: rename it")
            name = image_name(images_dir, image.get("file_name"))
            for side in ("width", "height"):
                if finite(image.get(side)) <= 0:
                    raise ValueError(f"the {side} is {short(image.get(side))}: give pixels")
            size = image_size(path_inside(images_dir, image["file_name"]))
        except ValueError as error:
            problems.add(f"image {i}", None, str(error))
        else:
            images[image["id"]] = {**image, "file_name": name, "size": size}
    return images


def _coco_categories(content: dict[str, Any], problems: Problems) -> dict[Any, str]:
    categories: dict[Any, str] = {}
    for i, category in enumerate(content["categories"]):
        key, name = (category.get("id"), category.get("name")) if isinstance(category, dict) else (None, None)
        if not isinstance(key, str | int) or not isinstance(name, str):
            problems.add(f"category {i}", None, f"{short(category)} needs an id and a name: add them")
        elif key in categories or name in categories.values():
            problems.add(f"category {i}", None, f"{short(name)} or its id is there twice: rename it")
        else:
            categories[key] = name
    if not categories and not problems.count:
        problems.add("categories", None, "none: a detection needs a class")
    return categories


def _coco_object(
    annotation: Any, images: dict[Any, dict[str, Any]], categories: dict[Any, str]
) -> tuple[Any, dict[str, Any] | None]:
    """The image's id and the object; None for a crowd or a box without area."""
    if not isinstance(annotation, dict):
        raise ValueError(f"{short(annotation)} is not an annotation: give image_id, category_id and bbox")
    key, category, box = (annotation.get(name) for name in ("image_id", "category_id", "bbox"))
    if not isinstance(key, str | int) or key not in images:
        raise ValueError(f"image_id {short(key)} is not among the images: correct it")
    if not isinstance(category, str | int) or category not in categories:
        raise ValueError(f"category_id {short(category)} is not among the categories: correct it")
    if not isinstance(box, list) or len(box) != 4:
        raise ValueError(f"bbox is {short(box)}: give x, y, width, height")
    x, y, width, height = (finite(number) for number in box)
    image = images[key]
    # Boxes are in pixels of the width and height that are written beside them, which need not be those of the file.
    across, down = (pixels / image[side] for pixels, side in zip(image["size"], ("width", "height"), strict=True))
    left, right = (min(max(edge * across, 0.0), image["size"][0]) for edge in (x, x + width))
    top, bottom = (min(max(edge * down, 0.0), image["size"][1]) for edge in (y, y + height))
    if annotation.get("iscrowd") == 1 or right <= left or bottom <= top:
        return key, None
    middle = [(left + right) / 2, (top + bottom) / 2, right - left, bottom - top]
    return key, {"box": middle, "category": categories[category]}
