"""The Python code that makes what a page shows, to copy."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

Row = Sequence[float]


def points_code(points: Sequence[Row], iterations: int, momentum: float, step: float, spread: float, seed: int) -> str:
    return f"""\
import torch
import setpred as sp
from setpred.play import pretrained

model = pretrained("points-fs")  # or points-sum, points-mean
points = torch.tensor({rows(points)})
sets, mask = sp.pad_sets([points], size=16)

start = {spread:g} * torch.randn(16, 2, generator=torch.Generator().manual_seed({seed}))
solver = sp.Nesterov(steps={iterations}, lr={step:g}, momentum={momentum:g})
decoder = sp.SetDecoder(model.decoder.encoder, solver=solver)
solution = decoder.solve(model.encode(sets, mask), mask, init=start, trace=True)

print(solution.sets[0, : len(points)])
print("inner loss", solution.loss.item())
print("set error", sp.hungarian_loss(solution.sets, sets, mask=mask).item())
"""


def scene_code(seed: int, index: int, steps: int) -> str:
    return f"""\
from setpred.data.scenes import Scenes
from setpred.play import pretrained

reader, sets = pretrained("scenes"), pretrained("scene-sets")
image, truth, _ = Scenes(size=(192, 128), seed={seed})[{index}]
(objects,) = reader.predict(image[None])  # read from the image
for thing in objects:
    print(thing)

z = sets.encode(reader.schema.encode_batch([objects])[0])  # the set as one vector, to be found again from noise
solution = sets.decoder.solve(z, steps={steps}, trace=True)  # every iterate
"""


def upload_code(steps: int) -> str:
    return f"""\
from pathlib import Path
from setpred.data.inputs import read_image
from setpred.play import pretrained

reader, sets = pretrained("scenes"), pretrained("scene-sets")
image = read_image(Path("your-picture.png"), size=(192, 128))
print("strangeness", reader.encoder.strangeness(image[None]).item())  # above 1: unlike what it was trained on
(objects,) = reader.predict(image[None])
for thing in objects:
    print(thing)

z = sets.encode(reader.schema.encode_batch([objects])[0])  # the set as one vector, to be found again from noise
solution = sets.decoder.solve(z, steps={steps}, trace=True)  # every iterate
"""


def lab_code(define: str, values: Sequence[Row], order: Sequence[int]) -> str:
    return f"""\
import torch
import setpred as sp

{define}
X = torch.tensor({rows(values)}, dtype=torch.float64)
P = torch.tensor({list(order)})

print("f(PX) =", f(X[P][None])[0])
print("Pf(X) =", f(X[None])[0][P])
report = sp.equivariance.check(f, X, permutations=P[None])
print(report)
print("P2 =", P if report.witness is None else report.witness.p2)
"""


def rows(values: Sequence[Row]) -> str:
    """Numbers as they were typed: `[[0, 1.5], [2, 3]]`; torch is left to make them floats.

    >>> rows([(0.5, 1.0)])
    '[[0.5, 1.0]]'
    """
    return "[" + ", ".join("[" + ", ".join(repr(float(value)) for value in row) + "]" for row in values) + "]"


def run_code(path: Path, changes: dict[str, Any], index: int) -> str:
    return f"""\
from pathlib import Path
import torch
from setpred.training.run_folder import load_run

settings, experiment = load_run(Path({str(path)!r}), {changes})
example = [part[{index} : {index + 1}] for part in experiment.split("test")]
with torch.no_grad():
    print(experiment.sets(example))
    print(experiment.judge(example))
"""
