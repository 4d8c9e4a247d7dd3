"""Experiments whose model is a predictor: an encoder of inputs, and a decoder, which may learn first and alone."""

from torch import Tensor

from ..predictor import SetPredictor
from .experiment import Experiment
from .settings import ImageOptimSettings


class Predicting(Experiment):
    """In the first `optim.sets_first` of the steps the decoder learns alone.

    It then decodes the encodings that its own encoder makes of the true sets. That is learned fast, and what comes back
    to the encoder of the inputs afterwards is the gradient of a decoder that works.
    """

    predictor: SetPredictor
    alone: bool = False

    def begin(self, step: int) -> None:
        optim = self.settings.optim
        assert isinstance(optim, ImageOptimSettings)
        self.alone = step < optim.sets_first * optim.steps

    def vectors(self, inputs: Tensor, target: Tensor, mask: Tensor | None = None) -> Tensor:
        """What sets are decoded from in training: encoded inputs, or at first the true sets, `[batch, latent]`."""
        decoder = self.predictor.decoder
        if self.alone and decoder is not None:
            return decoder.encoder(target)
        return self.predictor.encode(inputs, mask)
