"""Which part of an image model does what: nine designs on the same images, with the same budget.

    python benchmarks/image_parts.py FOLDER DESIGN SEED [STEPS TRAIN SIZE]    train one design
    python benchmarks/image_parts.py FOLDER                                   print the table of all results in FOLDER

A training writes FOLDER/DESIGN-STEPS-seedSEED.json.
All designs but `published` have the trunk of `ImageReader`. A training that was stopped goes on at its last checkpoint.
"""

import json
import sys
import time
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from setpred import ImageEncoder, Nesterov, SetEncoder, hungarian_loss, iDSPN
from setpred.baselines import CompetingSlots, ImageTokens, LearnedQueries
from setpred.data.clevr import CLEVR_SCHEMA as SCHEMA
from setpred.data.scene_cache import RENDERED, SceneSplit
from setpred.files import replacing
from setpred.image_reader import ImageReader
from setpred.metrics import SetAveragePrecision
from setpred.proposals import Proposer, best_threshold, proposal_loss, select
from setpred.tasks.augmentation import brightened, mirrored
from setpred.tasks.experiment import MEASURED, Batches
from setpred.tasks.parts import iterations_at
from setpred.training.module import rate_schedule
from setpred.trunks import Trunk, see

TRAIN, TEST, WIDTH, LATENT = 20_000, 2_000, 32, 512
STEPS, BATCH, ROUND = 1_200, 32, 500
SETS_FIRST = 1 / 16
"""Fraction of the steps in which a decoder learns alone, from the true sets."""
DECODED = 30.0
"""Weight of the decoded sets' loss beside that of the proposals: both then begin near 1."""
DISTANCES = ("inf", "0.5", "0.25", "0.125")


class Design(nn.Module):
    """A model with one or two answers: proposals, decoded sets, or both."""

    alone = False

    def loss(self, images: Tensor, sets: Tensor) -> Tensor:
        raise NotImplementedError

    def answers(self, images: Tensor) -> dict[str, Tensor]:
        raise NotImplementedError

    def prepare(self, images: Tensor, sets: Tensor) -> None:
        """Measure what no gradient teaches, before training."""


class Proposing(Design):
    """A reader alone."""

    def __init__(self, reader: Proposer, crowd: bool = True):
        super().__init__()
        self.reader, self.crowd = reader, crowd

    def prepare(self, images: Tensor, sets: Tensor) -> None:
        if isinstance(self.reader, ImageReader):
            self.reader.fit_places(images, sets, sets[..., -1] > 0)

    def loss(self, images: Tensor, sets: Tensor) -> Tensor:
        if self.crowd:
            return self.reader.loss(images, sets)
        return proposal_loss(SCHEMA, self.reader.propose(images), sets, sets[..., -1] > 0)

    def answers(self, images: Tensor) -> dict[str, Tensor]:
        return {"proposals": select(SCHEMA, self.reader.propose(images))}


class Decoding(Design):
    """A vector is read from the image, and an iDSPN decodes it from noise."""

    def __init__(self, encoder: nn.Module, sets_first: bool = False):
        super().__init__()
        self.encoder, self.decoder, self.sets_first = encoder, make_decoder(), sets_first

    def loss(self, images: Tensor, sets: Tensor) -> Tensor:
        z = self.decoder.encoder(sets) if self.alone and self.sets_first else self.encoder(images)
        return DECODED * hungarian_loss(self.decoder(z), sets).mean()

    def answers(self, images: Tensor) -> dict[str, Tensor]:
        return {"decoded": self.decoder(self.encoder(images))}


class Refining(Proposing):
    """An iDSPN starts at the likeliest proposals; z is read from places, or is their own encoding and a correction."""

    def __init__(self, reader: ImageReader, one_code: bool):
        super().__init__(reader)
        self.decoder, self.one_code = make_decoder(), one_code
        self.places = Places(reader.trunk.channels)
        self.gain = nn.Parameter(torch.zeros(())) if one_code else None

    def _answers(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        assert isinstance(self.reader, ImageReader)
        features, _ = see(self.reader.trunk, images)
        raw, crowd = self.reader.from_map(features)
        first = select(SCHEMA, raw)
        start = first * first[..., -1:]  # absent elements are zeros
        z = self.places(features.to(images))
        if self.gain is not None:
            z = self.decoder.encoder(start) + self.gain * z
        return raw, crowd, first, self.decoder(z, init=start)

    def loss(self, images: Tensor, sets: Tensor) -> Tensor:
        raw, crowd, _, decoded = self._answers(images)
        proposed = proposal_loss(SCHEMA, raw, sets, sets[..., -1] > 0, crowd)
        return proposed + DECODED * hungarian_loss(decoded, sets).mean()

    def answers(self, images: Tensor) -> dict[str, Tensor]:
        _, _, first, decoded = self._answers(images)
        return {"proposals": first, "decoded": decoded}


class Places(nn.Module):
    """A vector whose numbers are shared out over 4×4 places of a map: `[batch, c, rows, columns]` → `[batch, 512]`."""

    def __init__(self, channels: int):
        super().__init__()
        self.project = nn.Conv2d(channels, LATENT // 16, kernel_size=1)

    def forward(self, features: Tensor) -> Tensor:
        return self.project(F.adaptive_avg_pool2d(features, 4)).flatten(1)


class PlacesEncoder(nn.Module):
    """The published design with 4×4 places: the reader's trunk, and `Places` on its map."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = Trunk(WIDTH, patch=4)
        self.places = Places(self.trunk.channels)

    def forward(self, images: Tensor) -> Tensor:
        return self.places(see(self.trunk, images)[0].to(images))


def make_decoder() -> iDSPN:
    return iDSPN(SetEncoder(SCHEMA.dim, LATENT, LATENT, SCHEMA.size), solver=Nesterov(steps=20, clip=10.0))


DESIGNS = {
    "published": lambda frame: Decoding(ImageEncoder(LATENT, frame, WIDTH)),
    "places": lambda frame: Decoding(PlacesEncoder()),
    "places-sets-first": lambda frame: Decoding(PlacesEncoder(), sets_first=True),
    "proposals": lambda frame: Proposing(ImageReader(SCHEMA, WIDTH), crowd=False),
    "reader": lambda frame: Proposing(ImageReader(SCHEMA, WIDTH)),
    "z-from-places": lambda frame: Refining(ImageReader(SCHEMA, WIDTH), one_code=False),
    "one-code": lambda frame: Refining(ImageReader(SCHEMA, WIDTH), one_code=True),
    "queries": lambda frame: Proposing(LearnedQueries(SCHEMA, ImageTokens(WIDTH))),
    "slots": lambda frame: Proposing(CompetingSlots(SCHEMA, ImageTokens(WIDTH))),
}


def train(folder: Path, name: str, seed: int, steps: int = STEPS, count: int = TRAIN, size: int = 192) -> Path:
    """Train one design and judge it; what came out is a file, and where it stands nothing is done again."""
    result = folder / f"{name}-{steps}-seed{seed}.json"
    if result.exists():
        return result
    folder.mkdir(parents=True, exist_ok=True)
    split = SceneSplit(RENDERED, "train", count, size, stretched=False)
    data = split.images(), split.sets()
    torch.manual_seed(seed)
    model = DESIGNS[name](split.frame)
    model.prepare(data[0][:MEASURED] / 255, data[1][:MEASURED])
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.02, fused=True)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, rate_schedule("one-cycle", steps))
    parts: dict[str, Any] = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
    checkpoint, start, seconds = result.with_suffix(".pt"), 0, 0.0
    if checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=True)
        start, seconds = saved["step"], saved["seconds"]
        for key, part in parts.items():
            part.load_state_dict(saved[key])
    began = time.process_time() - seconds
    for step, batch in enumerate(Batches(data, BATCH, seed, start, steps), start):
        if step % ROUND == 0 and step > start:
            state = {key: part.state_dict() for key, part in parts.items()}
            with replacing(checkpoint) as file:
                torch.save({"step": step, "seconds": time.process_time() - began, **state}, file)
        torch.manual_seed(seed * 1_000_003 + step)
        images, sets = batch
        images, sets = mirrored(images, sets, torch.rand(len(sets)) < 0.5)
        images = brightened(images / 255)
        model.alone = step < SETS_FIRST * steps
        for part in (part for part in model.modules() if isinstance(part, iDSPN)):
            part.solver.steps = iterations_at("10,20", step, steps)
        optimizer.zero_grad()
        loss = model.loss(images, sets)
        loss.backward()
        optimizer.step()
        scheduler.step()
        if step % 100 == 0:
            print(f"{name} seed {seed} step {step} loss {loss.item():.4g}", flush=True)
    facts: dict[str, Any] = {"design": name, "seed": seed, "steps": steps, "images": steps * BATCH}
    facts["frame"] = "{}×{}".format(*split.frame)
    facts["cpu_seconds"] = round(time.process_time() - began)
    facts["parameters"] = sum(weight.numel() for weight in model.parameters())
    facts |= judge(model.eval(), data, SceneSplit(RENDERED, "val", min(TEST, count), size, stretched=False))
    result.write_text(json.dumps(facts, indent=2) + "\n")
    checkpoint.unlink(missing_ok=True)
    return result


@torch.no_grad()
def judge(model: Design, seen: tuple[Tensor, Tensor], unseen: SceneSplit) -> dict[str, dict[str, float]]:
    """AP of each answer on scenes that were not trained on, and how often the number of objects is right.

    `counted` is at the presence that suits the first training scenes best, `counted_half` at ½.
    """

    def answer(images: Tensor) -> dict[str, Tensor]:
        chunks = [model.answers(chunk / 255) for chunk in images.split(100)]
        return {kind: torch.cat([chunk[kind] for chunk in chunks]) for kind in chunks[0]}

    def presences(sets: Tensor) -> Tensor:
        return sets[..., -1].clamp(1e-6, 1 - 1e-6).logit()

    fitted = answer(seen[0][:MEASURED])
    truth, judged = unseen.sets(), {}
    counts = (truth[..., -1] > 0).sum(1)
    for kind, found in answer(unseen.images()).items():
        metric = SetAveragePrecision(SCHEMA)
        metric.update(found, truth)
        threshold = best_threshold(presences(fitted[kind]), (seen[1][:MEASURED, :, -1] > 0).sum(1))
        judged[kind] = {key: round(float(value), 4) for key, value in metric.compute().items()}
        for key, limit in (("counted", threshold), ("counted_half", 0.0)):
            right = (presences(found) > limit).sum(1) == counts
            judged[kind][key] = round(float(right.double().mean()), 4)
    return judged


def table(folder: Path) -> str:
    """Mean ± standard deviation over seeds, one row for each design and answer."""
    runs = [json.loads(path.read_text()) for path in sorted(folder.glob("*-seed*.json"))]
    lines = ["| design | answer | frame | images | seeds | CPU s | " + " | ".join(DISTANCES) + " | right number |"]
    lines.append("|---|---|---|" + "---:|" * (len(DISTANCES) + 4))
    for name, steps in sorted({(run["design"], run["steps"]) for run in runs}, key=lambda key: order(*key)):
        same = [run for run in runs if (run["design"], run["steps"]) == (name, steps)]
        for kind in (kind for kind in ("proposals", "decoded") if kind in same[0]):
            facts = [name, kind, same[0]["frame"], f"{steps * BATCH:,}", str(len(same))]
            facts.append(f"{mean(run['cpu_seconds'] for run in same):.0f}")
            for key in (*map("ap_{}".format, DISTANCES), "counted"):
                facts.append(spread([100 * run[kind][key] for run in same]))
            lines.append("| " + " | ".join(facts) + " |")
    return "\n".join(lines)


def order(name: str, steps: int) -> tuple[int, int]:
    return steps, list(DESIGNS).index(name)


def spread(values: list[float]) -> str:
    return f"{mean(values):.1f}" + (f" ± {stdev(values):.1f}" if len(values) > 1 else "")


if __name__ == "__main__":
    if len(sys.argv) == 2:
        print(table(Path(sys.argv[1])))
    else:
        where, design, number, *rest = sys.argv[1:]
        print(train(Path(where), design, int(number), *map(int, rest)))
