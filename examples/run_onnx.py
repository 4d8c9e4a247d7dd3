"""Objects from images without setpred, by a file of `setpred export`:  python run_onnx.py model.onnx image.png"""

import json
import sys

import numpy as np
import onnxruntime


def predict(file: str, inputs: np.ndarray, threshold: float = 0.5, **mask: np.ndarray) -> list[list[dict]]:
    """The objects of each input: images [batch, 3, side, side] in [0, 1], vectors, or sets with their mask=."""
    session = onnxruntime.InferenceSession(file)
    about = session.get_modelmeta().custom_metadata_map
    schema, start = json.loads(about["schema"]), np.array(json.loads(about["start"]), np.float32)
    starts, steps = start[None].repeat(len(inputs), axis=0), np.array(int(about["steps"]))
    (sets,) = session.run(["sets"], {"input": inputs.astype(np.float32), "start": starts, "steps": steps, **mask})
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
            low, high = field.get("range", (-1.0, 1.0))
            value = x.astype(float) * field.get("scale", (high - low) / 2) + (low + high) / 2
            thing[name] = (value.clip(low, high) if "range" in field else value).squeeze().tolist()
    return thing


if __name__ == "__main__":
    from PIL import Image

    side = onnxruntime.InferenceSession(sys.argv[1]).get_inputs()[0].shape[-1]
    for path in sys.argv[2:]:
        pixels = np.asarray(Image.open(path).convert("RGB").resize((side, side), Image.Resampling.BILINEAR)) / 255
        print(json.dumps(predict(sys.argv[1], pixels.transpose(2, 0, 1)[None])[0]))
