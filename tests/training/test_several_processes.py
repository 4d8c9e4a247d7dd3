"""Several processes that train together do what one would do alone."""

import os
import socket
import subprocess
import sys
from itertools import product

import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load_file
from torch import nn

import setpred as sp
from setpred.data.clevr import CLEVR_SCHEMA
from setpred.errors import UsageError
from setpred.tasks import make_settings
from setpred.training.run import train
from setpred.training.run_folder import read_result

BATCH, SIZE, DIM = 7, 4, 3
ADJOINTS = {
    "identity": sp.Identity(),
    "conjugate gradient": sp.ConjugateGradient(steps=4, gamma=None),
    "regularised conjugate gradient": sp.ConjugateGradient(steps=4, gamma=10.0),
    "unrolled": sp.Unrolled(),
}
SITUATIONS = ("plain", "learned init", "simplex", "box", "mask", "known", "sum", "relation", "clip", "diverging")
# Sum pooling leaves the Hessian singular: what an unregularised solve makes of that is rounding error.
CASES = [case for case in product(ADJOINTS, SITUATIONS) if case != ("conjugate gradient", "sum")]


class Model(nn.Module):
    """Vectors in, sets out: some network, then a decoder in one of its configurations."""

    def __init__(self, adjoint: str, situation: str):
        super().__init__()
        torch.manual_seed(0)
        self.situation = situation
        # An unregularised solve magnifies rounding, which is another one for a batch in two parts.
        self.precision = torch.float64 if adjoint == "conjugate gradient" else torch.float32
        constraints = {"simplex": sp.Simplex(), "box": sp.Box(-0.5, 0.5)}
        kind = sp.RelationEncoder if situation == "relation" else sp.SetEncoder
        self.network = nn.Linear(5, 8)
        self.decoder = sp.SetDecoder(
            kind(DIM, hidden=8, latent=8, size=SIZE, pool="sum" if situation == "sum" else "fs"),
            size=SIZE,
            dim=DIM,
            solver=sp.Nesterov(
                steps=5,
                lr=torch.finfo(self.precision).max if situation == "diverging" else 1.0,
                clip=0.1 if situation == "clip" else None,
            ),
            init=sp.LearnedInit() if situation == "learned init" else None,
            constraint=constraints.get(situation),
            adjoint=ADJOINTS[adjoint],
        )
        self.to(self.precision)

    def forward(self, inputs, start, exists):
        inputs, start = inputs.to(self.precision), start.to(self.precision)
        values, fixed = start, torch.arange(DIM) == 0
        return self.decoder(
            self.network(inputs),
            mask=exists if self.situation == "mask" else None,
            known=(values, fixed) if self.situation == "known" else None,
            init=None if self.situation == "learned init" else start,
        )


def gradients(model, rank=0, world=1):
    """Of the mean loss of the batch, from this process's share of it."""
    draw = torch.Generator().manual_seed(1)
    inputs, target = torch.randn(BATCH, 5, generator=draw), torch.randn(BATCH, SIZE, DIM, generator=draw)
    start, exists = 0.1 * torch.randn(BATCH, SIZE, DIM, generator=draw), torch.rand(BATCH, SIZE, generator=draw) < 0.7
    share = slice(rank, None, world)
    sets = model(inputs[share], start[share], exists[share])
    loss = sp.hungarian_loss(sets, target[share].to(sets.dtype), cost="huber")
    (loss.sum() * world / BATCH).backward()
    return [parameter.grad for parameter in model.parameters()]


def metrics(rank=0, world=1):
    """What is measured over a split of which each process judges a part."""
    draw = torch.Generator().manual_seed(2)
    sets = CLEVR_SCHEMA.encode_batch([[]] * 9)[0]
    scenes = torch.rand(sets.shape, generator=draw)
    guesses = (scenes + 0.2 * torch.randn(sets.shape, generator=draw)).clamp(0, 1)
    numbers = torch.nn.functional.one_hot(torch.randint(4, (9, 5), generator=draw), 4)
    answers = numbers + 0.35 * torch.randn(numbers.shape, generator=draw)
    precision, accuracy = sp.SetAveragePrecision(CLEVR_SCHEMA), sp.ExactSetAccuracy()
    share = slice(rank, None, world)
    for i in range(9)[share]:
        precision.update(guesses[i : i + 1], scenes[i : i + 1])
        accuracy.update(answers[i : i + 1], numbers[i : i + 1])
    return {**precision.compute(), "accuracy": accuracy.compute()}


def together(rank, port, path):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    found = {}
    for case in CASES:
        model = nn.parallel.DistributedDataParallel(Model(*case))
        found[case] = gradients(model, rank, 2)
    found["metrics"] = metrics(rank, 2)
    if rank == 1:
        torch.save(found, path)
    dist.barrier()
    os._exit(0)  # gloo's threads and the interpreter's lock may wait for one another while the group is taken down


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def by_two(tmp_path_factory):
    path = tmp_path_factory.mktemp("two") / "found.pt"
    torch.multiprocessing.spawn(together, (free_port(), path), nprocs=2)
    return torch.load(path, weights_only=True)


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_gradients_of_two_processes_are_those_of_one(by_two, case):
    alone = gradients(Model(*case))
    assert len(alone) == len(by_two[case])
    for ours, theirs in zip(alone, by_two[case], strict=True):
        assert theirs.isfinite().all()
        torch.testing.assert_close(theirs, ours, rtol=1e-6, atol=1e-6)
    assert any(grad.abs().max() > 1e-4 for grad in alone) or case[1] == "diverging"


def test_metrics_of_two_processes_are_those_of_one(by_two):
    alone = metrics()
    assert 0 < alone["accuracy"] < 1
    assert 0 < alone["ap_0.5"] < 1
    assert alone.keys() == by_two["metrics"].keys()
    for name, value in alone.items():
        torch.testing.assert_close(by_two["metrics"][name], value, rtol=0, atol=1e-6, equal_nan=True, msg=name)


TINY = {
    "data.n": 4,
    "data.train": 60,
    "data.val": 21,
    "data.test": 21,
    "init": "ZeroInit",
    "net.hidden": 16,
    "net.latent": 16,
    "optim.batch": 15,
    "optim.steps": 12,
    "trainer.round": 4,
}


def launched(how, out):
    """The processes that a person, torchrun or SLURM would start."""
    words = [f"{key}={value}" for key, value in (TINY | {"trainer.devices": 2}).items()]
    command = ["train", "numbering", *words, "--preset", "quick", "--out", str(out)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    if how == "torchrun":
        launcher = ["torch.distributed.run", "--nproc-per-node=2", f"--master-port={free_port()}", "-m"]
        return [subprocess.Popen([sys.executable, "-m", *launcher, "setpred", *command], env=environment)]
    if how == "SLURM variables":
        job = {"JOB_ID": "7", "JOB_NAME": "train", "NTASKS": "2", "NTASKS_PER_NODE": "2", "NODELIST": "localhost"}
        job |= {"JOB_NODELIST": "localhost", "NODEID": "0", "NNODES": "1"}
        environment |= {f"SLURM_{name}": value for name, value in job.items()} | {"MASTER_PORT": str(free_port())}
        places = [{"SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank)} for rank in range(2)]
    else:
        places = [{}]
    return [subprocess.Popen([sys.executable, "-m", "setpred", *command], env=environment | place) for place in places]


@pytest.mark.parametrize(
    "how",
    [
        "alone",
        pytest.param("torchrun", marks=pytest.mark.nightly),
        pytest.param("SLURM variables", marks=pytest.mark.nightly),
    ],
)
def test_a_training_on_two_devices_is_that_on_one(tmp_path, how, note):
    processes = launched(how, tmp_path / "two")
    train(make_settings("numbering", "idspn", "quick", 0, TINY), tmp_path / "one", quiet=True)
    assert [process.wait(300) for process in processes] == [0] * len(processes)
    one, two = (read_result(tmp_path / name) for name in ("one", "two"))
    assert two["steps"] == one["steps"] == 12
    assert two["metrics"] == pytest.approx(one["metrics"], abs=1e-5)
    ours, theirs = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    for name, weight in ours.items():
        torch.testing.assert_close(theirs[name], weight, rtol=0, atol=1e-4, msg=name)
    note(f"trainings by two processes started by {how}", 1)


def test_a_run_goes_on_with_another_number_of_devices_but_not_with_other_data(tmp_path):
    settings = make_settings("numbering", "idspn", "quick", 0, TINY)
    train(settings, tmp_path / "run", quiet=True)
    settings.trainer.devices = 4
    assert train(settings, tmp_path / "run", resume=True, quiet=True)["steps"] == 12
    settings.data.train = 61
    with pytest.raises(UsageError, match=r"was started with data\.train=60"):
        train(settings, tmp_path / "run", resume=True, quiet=True)


def test_more_processes_than_examples_is_refused_before_anything_is_written(tmp_path):
    settings = make_settings("numbering", "idspn", "quick", 0, TINY | {"data.test": 1, "trainer.devices": 2})
    with pytest.raises(UsageError, match=r"data\.test is 1, to be shared by 2 processes"):
        train(settings, tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()
