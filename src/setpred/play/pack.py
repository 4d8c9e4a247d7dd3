"""Make a model of the package out of a finished run: `python -m setpred.play.pack RUN NAME`."""

import json
import sys
from copy import deepcopy
from pathlib import Path

from ..predictor import SetPredictor
from ..schema import Real, Schema
from ..training.autoencoding import Autoencoding
from ..training.clevr import Clevr
from ..training.experiment import Experiment
from ..training.run_folder import load_run, read_result
from .pretrained import FOLDER


def pack(run: Path, name: str) -> Path:
    """Save the model of `run` as `name`, in half precision where it sees images, and what is known of its training."""
    _, experiment = load_run(run)
    model = predictor_of(experiment)
    if not isinstance(experiment, Autoencoding):
        model = model.half()
    folder = model.save_pretrained(FOLDER / name)
    result = read_result(run)
    kept = {key: result[key] for key in ("task", "model", "steps", "seconds", "commit")}
    metrics = {key: round(value, 6) for key, value in result["metrics"].items()}
    (folder / "trained.json").write_text(json.dumps({**kept, "metrics": metrics}, indent=2) + "\n")
    return folder


def predictor_of(experiment: Experiment) -> SetPredictor:
    """The predictor in an experiment; of an autoencoder, one whose objects are points."""
    if isinstance(experiment, Autoencoding):
        data, encoder = experiment.settings.data, deepcopy(experiment.encoder)  # it may be the decoder's own
        return SetPredictor(encoder, experiment.decoder, Schema({"at": Real(data.d)}, size=data.n, presence=False))
    assert isinstance(experiment, Clevr)
    return experiment.predictor


if __name__ == "__main__":
    print(pack(Path(sys.argv[1]), sys.argv[2]))
