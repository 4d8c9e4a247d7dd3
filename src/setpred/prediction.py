"""Predict from files: images, lines of data and standard input in, one JSON line an input out."""

import json
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from torch import Tensor, nn

from .data.inputs import Inputs, Kind, in_threads, kind_of, path_inside
from .data.records import MAX_LINE, parse
from .errors import ExampleError, UsageError
from .image_encoder import ImageEncoder
from .letterbox import Size
from .predictor import Predictions, SetPredictor, divergence
from .pretrained import CONFIG, RUN, read_config
from .values import short

IMAGES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif")
LINES = (".jsonl", ".json", ".ndjson")
BATCH = {"image": 32, "vector": 256, "set": 256}


@dataclass
class Model:
    """A predictor, and what its inputs look like."""

    predictor: SetPredictor
    inputs: Inputs

    def __call__(
        self, inputs: Tensor, sizes: Sequence[Size] | None, steps: int | None, threshold: float
    ) -> Predictions:
        """Objects from what `Inputs.read` gives, stacked, and of images the sizes of their files."""
        if self.inputs.kind != "set":
            return self.predictor.predict(inputs, steps, threshold, sizes=sizes)
        mask = (inputs[..., -1] > 0).to(next(self.predictor.parameters()).device)
        return self.predictor.predict(inputs[..., :-1], steps, threshold, mask)


@dataclass
class Request:
    """One input: what errors call it, what its answer repeats of it, and how it is read."""

    name: str
    repeated: dict[str, Any]
    read: Callable[[], tuple[Tensor, Size | None]]

    def input(self) -> tuple[Tensor, Size | None]:
        """The tensor, and the size of an image in its file."""
        try:
            return self.read()
        except (ValueError, OSError) as error:
            raise UsageError(f"{self.name}: {error}") from None


def load_model(path: str) -> Model:
    """The predictor of a run folder, of a folder saved with `save_pretrained`, or of that name on the hub."""
    predictor, folder, pixels = SetPredictor.from_pretrained(path), Path(path), 128
    if (folder / CONFIG).exists():
        pixels = read_config(folder).get("pixels", pixels)
    elif (folder / RUN).exists():  # of an earlier version, which was built from its settings
        from .training.run_folder import read_config as read_settings

        pixels = getattr(read_settings(folder).data, "size", pixels)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return Model(predictor.to(device).eval(), inputs_of(predictor.encoder, pixels))


def inputs_of(encoder: nn.Module, pixels: int) -> Inputs:
    """What an encoder takes: images, unless its attribute `takes` is "vector" or "set".

    An encoder may wrap another one as its `encoder` or its `tokens`; the innermost one says what is taken.

    Args:
        encoder: of a `SetPredictor`.
        pixels: side of squares, for encoders that do not say which images they take.

    >>> from setpred.encoders import Standardized, VectorEncoder
    >>> inputs_of(Standardized(VectorEncoder(dim=4, hidden=8, latent=8), dim=4), 128)
    Inputs(kind='vector', dim=4, size=1, height=None)
    """
    while isinstance(inner := getattr(encoder, "encoder", getattr(encoder, "tokens", None)), nn.Module):
        encoder = inner
    said: Any = encoder
    kind: Kind = getattr(said, "takes", "image")
    if kind != "image":
        return Inputs(kind, said.dim, 1 if kind == "vector" else said.size)
    canvas: Any = said.size if isinstance(encoder, ImageEncoder) else getattr(said, "canvas", None)
    canvas = canvas or getattr(said, "image_size", pixels)
    return Inputs("image", 3, *([canvas] if isinstance(canvas, int) else canvas))


def predict(
    model: Model, words: list[str], write: Callable[[str], Any], steps: int | None = None, threshold: float = 0.5
) -> None:
    """Write one line for each input that `words` name, in their order, however many there are.

    Where the inner optimisation diverged, the line says `"diverged": true`, and a warning counts them at the end.

    Args:
        words: image files, folders of images, files of JSON lines as in a data folder, or `-` for standard input.
        write: takes a line.
        steps: inner iterations, instead of the model's own.
        threshold: the presence from which on an element is an object.
    """
    inputs, total = find_requests(words, model.inputs)
    batch, images = BATCH[model.inputs.kind], model.inputs.kind == "image"
    progress = Progress(
        TextColumn("predicting"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        redirect_stdout=False,
    )
    bar = progress.add_task("", total=total)
    several = total is None or total > batch
    done = diverged = 0
    # On a screen that shows the lines themselves a bar would be in their way.
    with progress if several and not sys.stdout.isatty() else nullcontext():
        while requests := list(islice(inputs, batch)):
            read = in_threads(Request.input, requests) if images else map(Request.input, requests)
            tensors, sizes = zip(*read, strict=True)
            try:
                with warnings.catch_warnings():
                    warnings.filterwarnings("ignore", "the inner optimisation diverged")  # said once, at the end
                    answers = model(torch.stack(tensors), sizes if images else None, steps, threshold)
            except ExampleError as error:
                reason = "the model predicts NaN or infinity for it: are its numbers as large as in training?"
                raise UsageError(f"{requests[error.example].name}: {reason}") from None
            except ValueError as error:
                raise UsageError(str(error)) from None
            for request, objects, lost in zip(requests, answers, answers.diverged, strict=True):
                flag = {"diverged": True} if lost else {}
                write(json.dumps({**request.repeated, **flag, "objects": _short(objects)}, ensure_ascii=False))
            done, diverged = done + len(requests), diverged + sum(answers.diverged)
            progress.update(bar, advance=len(requests))
    if diverged:
        print(f"setpred: warning: {divergence(diverged, done)}", file=sys.stderr)


def find_requests(words: Iterable[str], inputs: Inputs) -> tuple[Iterator[Request], int | None]:
    """The inputs that words name, and how many there are where that is known without reading them."""
    sources: list[Path | str] = []
    for word in words:
        path = Path(word)
        if word == "-":
            sources.append(word)
        elif path.is_dir():
            found = sorted(file for file in path.iterdir() if file.suffix.lower() in IMAGES)
            if not found:
                raise UsageError(f"{path} holds no images ({', '.join(IMAGES)}): name files, or - for standard input")
            sources += found
        elif not path.is_file():
            raise UsageError(f"there is no input {word}: name a file, a folder of images, or - for standard input")
        else:
            sources.append(path)
    lines = [source for source in sources if source == "-" or Path(source).suffix.lower() in LINES]
    if inputs.kind != "image" and len(lines) < len(sources):
        other = next(source for source in sources if source not in lines)
        raise UsageError(f"{other} is no file of JSON lines: the model takes a {inputs.kind}, name a .jsonl file or -")
    return _requests(sources, lines, inputs), None if lines else len(sources)


def _requests(sources: list[Path | str], lines: list[Path | str], inputs: Inputs) -> Iterator[Request]:
    for source in sources:
        if source == "-":
            yield from _read_lines(sys.stdin.buffer, "standard input", Path(), inputs)
        elif source in lines:
            with Path(source).open("rb") as file:
                yield from _read_lines(file, str(source), Path(source).parent, inputs)
        else:
            # Names of files may be no text, which JSON cannot hold.
            name = os.fsencode(source).decode(errors="backslashreplace")
            yield Request(name, {"image": name}, partial(inputs.read_image, Path(source)))


def _read_lines(file: BinaryIO, name: str, root: Path, inputs: Inputs) -> Iterator[Request]:
    number = 0
    while text := file.readline(MAX_LINE + 1):
        number += 1
        where = f"{name} line {number}"
        if not text.strip():
            continue
        try:
            if len(text) > MAX_LINE:
                raise ValueError(f"longer than {MAX_LINE >> 20} MB: split it into several")
            content = parse(text)
            inputs.expect(kind_of(content))
            repeated: dict[str, Any] = {key: content[key] for key in ("id", "image") if key in content}
            if not _is_json(repeated):
                raise ValueError(f"id is {short(content['id'])}, which JSON cannot repeat: use a text or a number")
        except ValueError as error:
            raise UsageError(f"{where}: {error}") from None
        yield Request(where, repeated, partial(_read_line, inputs, content, root))


def _read_line(inputs: Inputs, content: dict[str, Any], root: Path) -> tuple[Tensor, Size | None]:
    if inputs.kind == "image":
        return inputs.read_image(path_inside(root, content["image"]))
    return inputs.read(content), None


def _is_json(value: Any) -> bool:
    """Python reads and writes NaN and Infinity, which JSON does not have."""
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True


def _short(value: Any) -> Any:
    """Numbers to six digits, which is what 32 bits are good for."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: _short(item) for key, item in value.items()}
    return [_short(item) for item in value] if isinstance(value, list) else value
