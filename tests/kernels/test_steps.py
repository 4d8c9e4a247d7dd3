"""The compiled step is the step of torch's SGD with Nesterov momentum."""

import pytest
import torch

from setpred.kernels.steps import nesterov_steps


@pytest.mark.parametrize("shape", [(3, 4, 5), (1, 1, 1), (0, 4, 2), (2, 64, 68)])
@pytest.mark.parametrize("clip", [None, 2.0])
def test_is_the_step_of_torch(shape, clip):
    sets, velocity = torch.randn(shape), torch.zeros(shape)
    taken, clipped = torch.zeros(2, shape[0])
    running = torch.ones(shape[0], dtype=torch.bool)
    parameter = sets.clone().requires_grad_()
    optimizer = torch.optim.SGD([parameter], lr=0.7, momentum=0.9, nesterov=True)
    too_long = torch.zeros(shape[0])
    for t in range(4):
        grad = t * torch.randn(shape)
        before = grad.clone()
        norm = torch.linalg.vector_norm(grad, dim=(1, 2), keepdim=True)
        scale = 1.0 if clip is None else (clip / (norm + 1e-6)).clamp(max=1)
        too_long += 0.0 if clip is None else norm.flatten() > clip
        parameter.grad = scale * grad
        optimizer.step()
        nesterov_steps(sets, grad, velocity, running, taken, clipped, clip)(0.7, 0.9)
        torch.testing.assert_close(grad, before, rtol=0, atol=0)
    torch.testing.assert_close(sets, parameter.detach(), rtol=1e-4, atol=1e-5)
    assert torch.equal(clipped, too_long)
    assert torch.equal(taken, torch.full((shape[0],), 4.0))


def test_an_example_that_has_stopped_stays_as_it_is():
    sets, grad, velocity, taken, clipped = *torch.randn(3, 3, 2, 2).unbind(), torch.zeros(3), torch.zeros(3)
    before = sets.clone()
    running = torch.tensor([True, False, True])
    nesterov_steps(sets, grad, velocity, running, taken, clipped, clip=1e-3)(1.0, 0.9)
    assert torch.equal((sets != before).any(dim=2).any(dim=1), running)
    assert torch.equal(taken, running.float())
    assert torch.equal(clipped, running.float())


def test_not_a_number_stays_in_its_example():
    sets, grad = torch.zeros(2, 3, 2), torch.ones(2, 3, 2)
    grad[0, 1, 1] = float("nan")
    running = torch.ones(2, dtype=torch.bool)
    nesterov_steps(sets, grad, torch.zeros(2, 3, 2), running, torch.zeros(2), torch.zeros(2), clip=1.0)(1.0, 0.9)
    assert not sets[0].isfinite().all()
    assert sets[1].isfinite().all()


def test_tensors_that_cannot_be_written_in_place_are_refused():
    sets = torch.zeros(2, 3, 4)
    for bad in (sets.transpose(1, 2), sets[:1], sets.double()):
        with pytest.raises(ValueError, match="contiguous"):
            nesterov_steps(sets, bad, torch.zeros(2, 3, 4), torch.ones(2) > 0, torch.zeros(2), torch.zeros(2))
