"""Make a model of the playground out of a finished run: `python docs/playground_models.py RUN NAME`."""

import json
import sys
from pathlib import Path

from setpred.export.formats import export_trained
from setpred.play.zoo import FOLDER
from setpred.training.run_folder import read_result


def pack(run: Path, name: str) -> Path:
    """Save the model of `run` as `name`, in half precision, and what is known of its training."""
    folder = export_trained(str(run), "pretrained", FOLDER / name, half=True)
    result = read_result(run)
    kept = {key: result[key] for key in ("task", "model", "steps", "seconds", "commit")}
    metrics = {key: round(value, 6) for key, value in result["metrics"].items()}
    (folder / "trained.json").write_text(json.dumps({**kept, "metrics": metrics}, indent=2) + "\n")
    return folder


if __name__ == "__main__":
    print(pack(Path(sys.argv[1]), sys.argv[2]))
