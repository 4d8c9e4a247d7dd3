"""Objects from images without setpred, by a file of `setpred export`:  python run_onnx.py model.onnx image.png"""

import json
import sys

import numpy as np
import onnxruntime


def predict(file: str, inputs: np.ndarray, threshold: float = 0.5, **mask: np.ndarray) -> list[list[dict]]:
    """The objects of each input: images [batch, 3, height, width] in [0, 1], vectors, or sets with their mask=.

    Places in pixels are fractions of the longer side of the images.
    """
    session = onnxruntime.InferenceSession(file)
    about = session.get_modelmeta().custom_metadata_map
    schema, feed = json.loads(about["schema"]), {"input": inputs.astype(np.float32), **mask}
    if "start" in about:
        start = np.array(json.loads(about["start"]), np.float32)
        feed |= {"start": start[None].repeat(len(inputs), axis=0), "steps": np.array(int(about["steps"]))}
    (sets,) = session.run(["sets"], feed)
    present = sets[..., -1] >= threshold if schema["presence"] else np.ones(sets.shape[:2], bool)
    return [[decode(row, schema["fields"]) for row in rows[there]] for rows, there in zip(sets, present, strict=True)]


def decode(row: np.ndarray, fields: dict[str, dict]) -> dict:
    """An object in the units of its schema, from the numbers of its fields side by side."""
    thing = {}
    for name, field in fields.items():
        size = len(field["names"]) if field["type"] == "category" else 2 if field["type"] == "angle" else 1
        x, row = np.split(row, [field.get("dim", size)])
        if field["type"] == "category":
            thing[name] = field["names"][x.argmax()]
        elif field["type"] == "flag":
            thing[name] = bool(x[0] > 0.5)
        elif field["type"] == "count":
            thing[name] = round(float(x[0].clip(0, 1)) * field["max"])
        elif field["type"] == "angle":
            thing[name] = float(np.arctan2(x[1], x[0]) / (2 * np.pi) % 1 * field.get("period", 360.0))
        else:
            low, high = field.get("range", (0.0, 1.0) if field.get("pixels") else (-1.0, 1.0))
            value = x.astype(float) * field.get("scale", (high - low) / 2) + (low + high) / 2
            bounded = "range" in field or field.get("pixels")
            thing[name] = (value.clip(low, high) if bounded else value).squeeze().tolist()
    return thing


def read(file: str, path: str) -> tuple[np.ndarray, dict[str, float]]:
    """An image as the model takes it [1, 3, height, width], and what makes pixels of the fields that are in pixels."""
    from PIL import Image, ImageOps

    session = onnxruntime.InferenceSession(file)
    about = session.get_modelmeta().custom_metadata_map
    height, width = session.get_inputs()[0].shape[-2:]
    image = ImageOps.exif_transpose(Image.open(path)).convert("RGB")
    scale = min(width / image.width, height / image.height)
    size = (round(scale * image.width), round(scale * image.height))
    size = (width, height) if about["images"] == "stretched" else size
    canvas = np.zeros((height, width, 3), np.float32)
    canvas[: size[1], : size[0]] = np.asarray(image.resize(size, Image.Resampling.BILINEAR)) / 255
    fields = json.loads(about["schema"])["fields"]
    pixels = {name: max(width, height) / scale for name, field in fields.items() if field.get("pixels")}
    return canvas.transpose(2, 0, 1)[None], pixels


if __name__ == "__main__":
    for path in sys.argv[2:]:
        inputs, pixels = read(sys.argv[1], path)
        (objects,) = predict(sys.argv[1], inputs)
        for thing in objects:
            thing |= {name: [factor * number for number in thing[name]] for name, factor in pixels.items()}
        print(json.dumps(objects))
