"""The same seed gives the same bits: data, pictures and training, however many workers make them."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from setpred.data.scenes import Scenes, write
from setpred.data.synthetic import numbering, random_masks, random_sets
from setpred.paper.executors import Processes
from setpred.paper.reproduce import make_plan
from setpred.paper.scheduler import run_all

COUNT = 6


def whole(loader):
    return [torch.cat(parts) for parts in zip(*loader, strict=True)]


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_scenes_do_not_depend_on_who_renders_them(workers):
    scenes = Scenes(count=COUNT, size=24, seed=5)
    images, sets, mask = whole(DataLoader(scenes, batch_size=2, num_workers=workers))
    bytes_, same_sets, same_mask = scenes.batch(range(COUNT), workers=workers or None)
    assert torch.equal(images, bytes_.float() / 255)
    assert torch.equal(sets, same_sets)
    assert torch.equal(mask, same_mask)


def test_scenes_written_twice_are_the_same_files(tmp_path):
    for name in ("once", "twice"):
        write(tmp_path / name, COUNT, 24, 5, "train")
    files = sorted(path.relative_to(tmp_path / "once") for path in (tmp_path / "once").rglob("*") if path.is_file())
    assert len(files) == COUNT + 1
    for path in files:
        assert (tmp_path / "once" / path).read_bytes() == (tmp_path / "twice" / path).read_bytes(), path


@pytest.mark.parametrize(
    "make",
    [
        lambda: numbering(9, 7, 4, 3, 2),
        lambda: (random_sets(9, 5, 2, 3),),
        lambda: (random_masks(9, 1, 5, 3),),
    ],
    ids=["numbering", "random sets", "random masks"],
)
def test_data_depend_on_their_seed_alone(make):
    first = make()
    torch.manual_seed(123)
    np.random.seed(123)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        second = make()
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_training_gives_the_same_bits_alone_and_beside_others(tmp_path):
    tiny = ("data.train=64", "data.test=16", "net.hidden=16", "net.latent=16", "trainer.round=6", "optim.steps=12")
    words = ["n=2", "d=2", "steps=10", "model=idspn", *tiny]
    (alone,) = make_plan("autoencoding", [*words, "seeds=1"], tmp_path / "alone").runs
    beside = make_plan("autoencoding", [*words, "seeds=0-1"], tmp_path / "beside").runs
    assert run_all([alone], Processes(workers=1)) == run_all(beside, Processes(workers=2)) == {}
    weights = [(run.folder / "model.safetensors").read_bytes() for run in (alone, beside[1], beside[0])]
    assert weights[0] == weights[1]
    assert weights[0] != weights[2], "another seed"


def test_python_with_another_hash_seed_renders_and_draws_the_same():
    code = (
        "import hashlib; from setpred.data.scenes import Scenes; from setpred.data.synthetic import numbering;"
        "made = [*Scenes(size=16, seed=1).batch([3], workers=2), *numbering(3, 5, 4, 1, 2)];"
        "print(hashlib.sha1(b''.join(t.numpy().tobytes() for t in made)).hexdigest())"
    )
    said = [
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True
        ).stdout
        for seed in ("1", "2")
    ]
    assert said[0] == said[1] != ""
