"""Which equivariance a model has: trained ones from a run folder, fresh ones by name."""

from pathlib import Path

import torch
from torch import Tensor

from .. import equivariance
from ..baselines import SlotAttention, Transformer
from ..decoder import SetDecoder
from ..equivariance import Report
from ..errors import UsageError, unknown
from .autoencoding import Autoencoding
from .clevr import Clevr
from .experiment import Experiment
from .numbering import Numberer, Numbering
from .own import OwnFolder
from .run_folder import load_run, read_config
from .tasks import TASKS, make_experiment, make_settings

EXAMPLES = {"push_apart": equivariance.push_apart, "sort_jacobian": equivariance.sort_jacobian}
SETS = 8


def check_run(run: Path) -> Report:
    """The verdict on a trained run, on sets of its own task."""
    return check_experiment(load_run(run, {"data.test": min(SETS, read_config(run).data.test)})[1])


def check_named(name: str) -> Report:
    """The verdict on a function of the paper, or on a small untrained model."""
    if name in EXAMPLES:
        return equivariance.check(EXAMPLES[name], size=5)
    models = TASKS["numbering"].models
    if name not in models:
        raise unknown("run folder or model", name, [*EXAMPLES, *models])
    torch.manual_seed(0)
    settings = make_settings("numbering", name, "quick", overrides={"data.test": SETS})
    return check_experiment(make_experiment(settings).eval())


def check_experiment(experiment: Experiment) -> Report:
    """In float64: the order of nearly equal elements must not hang on rounding."""
    experiment = experiment.double()
    if isinstance(experiment, Autoencoding):
        return _check_decoder(experiment.decoder, experiment.encoder(experiment.split("test")[0][:1].double()))
    if isinstance(experiment, Clevr):
        return _check_clevr(experiment)
    if isinstance(experiment, OwnFolder):
        decoder, inputs = experiment.predictor.decoder, experiment.split("test")[0][:1]
        assert decoder is not None
        return _check_decoder(decoder, experiment.predictor.encode(*experiment.with_mask(inputs)))
    assert isinstance(experiment, Numbering)
    return _check_numbering(experiment)


def _check_decoder(decoder: SetDecoder, z: Tensor) -> Report:
    """The decoder as a function of its initial set; z is `[1, latent]`."""

    def decode(start: Tensor) -> Tensor:
        with torch.no_grad():
            return decoder(z.expand(len(start), -1).contiguous(), init=start)

    return equivariance.check(decode, size=decoder.size, dim=decoder.dim)


def _check_clevr(experiment: Clevr) -> Report:
    """The model as a function of its initial set or slots."""
    predictor, model = experiment.predictor, experiment.predictor.encoder
    inputs = predictor.prepared(experiment.scenes("val", 1)[0])
    if predictor.decoder is not None:
        return _check_decoder(predictor.decoder, model(inputs))
    if not isinstance(model, SlotAttention):
        raise UsageError(f"{experiment.settings.model} starts from no set: there is nothing to permute")

    features = model.features(inputs)  # once: the image stays the same

    def attend(slots: Tensor) -> Tensor:
        with torch.no_grad():
            return model.head(model.attention(features.expand(len(slots), -1, -1), slots)[-1])

    return equivariance.check(attend, size=model.size, dim=model.width)


def _check_numbering(experiment: Numbering) -> Report:
    """The model as a function of its input set, and of its noise where it has any."""
    model, inputs = experiment.model, experiment.split("test")[0][:SETS].double()
    n = inputs.shape[1]
    if isinstance(model, Numberer):

        def number(sets: Tensor, noise: Tensor) -> Tensor:
            with torch.no_grad():
                return model(sets, init=0.1 * noise)

        return equivariance.check(number, inputs, noise_dim=n, noise="joint")
    if isinstance(model, Transformer) and model.pe == "random":
        noise_dim = model.noise_dim
        return equivariance.check(lambda x, noise: model(x, noise=noise), inputs, noise_dim=noise_dim, noise="fixed")
    return equivariance.check(model, inputs)
