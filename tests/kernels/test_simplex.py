"""The projection on the simplex is the nearest point of it, with either backend."""

import pytest
import torch

from setpred.kernels.simplex import (
    numba_project_simplex,
    project_simplex,
    project_simplex_,
    torch_project_simplex,
)

BACKENDS = [torch_project_simplex, numba_project_simplex, project_simplex]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shape", [(5,), (7, 1), (3, 4, 16), (20, 64), (9, 33)])
@pytest.mark.parametrize("scale", [0.0, 0.01, 1.0, 50.0])
@pytest.mark.parametrize("total", [1.0, 3.0])
def test_projection_is_the_nearest_point(backend, shape, scale, total):
    x = scale * torch.randn(shape, generator=torch.Generator().manual_seed(0))
    y = backend(x, total)
    assert y.min() >= 0
    torch.testing.assert_close(y.sum(dim=-1), torch.full(shape[:-1], total), rtol=1e-4, atol=1e-4)
    # x - y lies in the normal cone: the same number on the support, nothing larger elsewhere.
    pull = x - y
    level = pull.amax(dim=-1, keepdim=True)
    torch.testing.assert_close(pull[y > 1e-4], level.expand_as(pull)[y > 1e-4], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("backend", BACKENDS)
def test_many_equal_entries_and_points_of_the_simplex(backend):
    torch.testing.assert_close(backend(torch.full((2, 20), 7.0), 1.0), torch.full((2, 20), 0.05))
    corner = torch.eye(20)
    torch.testing.assert_close(backend(corner, 1.0), corner)


@pytest.mark.parametrize("backend", BACKENDS)
def test_odd_inputs(backend):
    assert backend(torch.empty(0, 5), 1.0).shape == (0, 5)
    x = torch.randn(6, 68)[:, 4:]
    torch.testing.assert_close(backend(x, 1.0), backend(x.contiguous(), 1.0))
    for bad in (float("nan"), float("inf")):
        assert not backend(torch.tensor([bad, 1.0, 2.0]), 1.0).isfinite().all()


def test_derivatives():
    x = torch.randn(4, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    assert torch.autograd.gradcheck(project_simplex, x)
    assert torch.autograd.gradgradcheck(project_simplex, x)
    v = torch.autograd.grad(project_simplex(x).sum(), x)[0]
    torch.testing.assert_close(v, torch.zeros_like(v))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_is_an_ordinary_operator(dtype):
    torch.library.opcheck(
        torch.ops.setpred.project_simplex.default, (torch.randn(3, 5, dtype=dtype).requires_grad_(), 1.0)
    )


def test_in_place_on_a_part_of_each_element():
    sets = torch.randn(3, 5, 40)
    expected = torch.cat([sets[..., :3], torch_project_simplex(sets[..., 3:36], 1.0), sets[..., 36:]], dim=-1)
    project_simplex_(sets[..., 3:36])
    torch.testing.assert_close(sets, expected)
    for bad in (sets.transpose(1, 2), sets[..., ::2], sets[:, ::2, :4], sets.double()):
        before = bad.clone()
        with pytest.raises(ValueError, match="use project_simplex"):
            project_simplex_(bad)
        assert torch.equal(bad, before)
