"""Tasks as data: what each learns from, its models and presets, how it is judged, drawn and shown.

A new task is a module with a `TASK`, and its line in the table.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from .task import Task, find_task, make_experiment, make_settings

OF_FOLDERS = "folder"
"""The task of a folder that is named instead of a task."""
TASKS = {
    "numbering": "setpred.tasks.numbering",
    "autoencoding": "setpred.tasks.autoencoding",
    "clevr": "setpred.tasks.clevr_objects",
    OF_FOLDERS: "setpred.tasks.folder",
}
"""The module of each task; it is imported when the task is first used."""


class Named(NamedTuple):
    """A model's name in figures and tables, and a sentence about it."""

    name: str
    sentence: str


MODEL_NAMES = {
    "idspn": Named("iDSPN + momentum", "The paper's model: sort pooling, momentum 0.9, implicit gradients."),
    "idspn-0.5": Named("iDSPN + momentum 0.5", "iDSPN with momentum 0.5."),
    "idspn-no-momentum": Named("iDSPN", "iDSPN with plain gradient descent."),
    "idspn-relation": Named("iDSPN, relation encoder", "iDSPN whose inner encoder looks at all pairs of elements."),
    "dspn": Named("DSPN", "The predecessor: gradients through every inner iteration. Slower, and needs more memory."),
    "dspn-0.9": Named("DSPN + momentum 0.9", "DSPN with momentum 0.9."),
    "idspn-sum": Named("iDSPN, sum pooling", "iDSPN with sum pooling, which cannot separate equal elements."),
    "idspn-mean": Named("iDSPN, mean pooling", "iDSPN with mean pooling, which cannot separate equal elements."),
    "deepsets": Named("DeepSets", "Treats all elements alike, so equal elements get equal outputs."),
    "transformer": Named("Transformer, no PE", "Self-attention without positions: equal elements get equal outputs."),
    "transformer-random-pe": Named("Transformer, random PE", "Self-attention that adds random positions."),
    "transformer-pe": Named("Transformer, PE", "Self-attention over a list: the order of the elements matters."),
    "transformer-pe-both": Named(
        "Transformer, PE in the encoder too", "transformer-pe with positions in its encoder, too."
    ),
    "bilstm": Named("BiLSTM", "A recurrent network over a list: the order of the elements matters."),
    "slot-attention": Named("Slot Attention", "Slots compete for places of the image, trained as first published."),
    "slot-attention-star": Named("Slot Attention*", "Slot Attention with a loss after every round."),
    "slot-attention-dagger": Named(
        "Slot Attention†", "Slot Attention with a loss after every round and a larger range of coordinates."
    ),
    "slot-attention-implicit": Named("Slot Attention, implicit", "Slot Attention, differentiated in its last round."),
    "slot-mlp": Named(
        "Slot MLP", "An MLP that computes a list of outputs from one vector, without set structure (CLEVR)."
    ),
    "reader": Named("reader", "Every place of the image proposes an object. Recommended for images."),
    "reader-queries": Named("reader, queries", "Learned queries attend to the feature map of the reader."),
    "reader-slots": Named("reader, slots", "Slots compete for the feature map of the reader."),
    "mlp": Named("MLP", "An MLP that computes all elements at once from one vector."),
    "queries": Named(
        "learned queries", "Learned queries in a Transformer decoder, with a loss after each layer (DETR, TSPN)."
    ),
    "slots": Named("slots, implicit", "Slot Attention on any input, differentiated in its last round."),
    "slots-unrolled": Named("slots, unrolled", "Slot Attention on any input, differentiated through its three rounds."),
    "best": Named("best", "The model that we recommend for the task, with our recipe."),
}
"""A model without a line here goes by its own name. The shell completes from here, so nothing is imported."""


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'setpred.tasks' has no attribute {name!r}")
    # Loads torch, which the command line needs later than the names of the tasks.
    return getattr(import_module(".task", __name__), name)


__all__ = ["MODEL_NAMES", "OF_FOLDERS", "TASKS", "Task", "find_task", "make_experiment", "make_settings"]
