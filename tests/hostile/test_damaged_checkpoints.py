"""A run whose checkpoint, or whose cache of scenes, is damaged says so in a line, or goes on."""

import random
import shutil

import numpy as np
import pytest
from mutations import mutate

from setpred.data.scene_cache import SceneSplit
from setpred.errors import UsageError
from setpred.tasks import make_settings
from setpred.training.run import train

TINY = {"data.train": 64, "data.test": 16, "optim.steps": 4, "trainer.round": 2, "trainer.logger": None}
TINY |= {"net.hidden": 8, "net.latent": 8}
TASKS = {"last.ckpt": ("autoencoding", {}), "best.ckpt": ("numbering", {"data.val": 16, "data.n": 4})}


def outcomes(root, name, cases):
    """How many damaged checkpoints were refused, and from how many training went on all the same."""
    task, changes = TASKS[name]
    settings = make_settings(task, "idspn", "quick", 0, TINY | changes)
    train(settings, root / "sound", quiet=True)
    (root / "sound" / "result.json").unlink()
    content = (root / "sound" / "checkpoints" / name).read_bytes()
    messages = []
    for seed in range(cases):
        run = root / "damaged"
        shutil.copytree(root / "sound", run)
        (run / "checkpoints" / name).write_bytes(mutate(content, random.Random(seed)))
        try:
            train(settings, run, resume=True, quiet=True)
        except UsageError as error:
            messages.append(str(error))
        shutil.rmtree(run)
    assert all(f"{name} cannot be read" in message and "\n" not in message for message in messages)
    return {"refused": len(messages), "went on": cases - len(messages)}


@pytest.mark.parametrize("name", TASKS)
def test_a_damaged_checkpoint_is_told_in_a_line(tmp_path, name):
    assert outcomes(tmp_path, name, cases=8)["refused"] > 0


@pytest.mark.nightly
@pytest.mark.parametrize("name", TASKS)
def test_many_damaged_checkpoints(tmp_path, name, note):
    note(f"damaged {name}", outcomes(tmp_path, name, cases=300))


@pytest.mark.parametrize(
    "content",
    [b"", b"nothing", np.zeros((4, 2), dtype="<f4"), np.zeros(4, dtype="<f8")],
    ids=["empty", "text", "another shape", "another type"],
)
def test_a_damaged_cache_of_scenes_is_told_in_a_line(tmp_path, monkeypatch, content):
    monkeypatch.setenv("SETPRED_CACHE", str(tmp_path))
    split = SceneSplit("scenes", "train", count=4, size=16)
    sound = split.sets()
    (path,) = tmp_path.rglob("sets.npy")
    path.unlink()  # what was read still stands in the old file's memory
    path.write_bytes(content) if isinstance(content, bytes) else np.save(path, content)
    with pytest.raises(UsageError, match=r"sets\.npy .*remove it"):
        split.sets()
    path.unlink()
    assert split.sets().equal(sound)
