"""The transforms of torch.func are refused in one sentence that says what to do instead, or they work."""

import pytest
import torch
from torch.func import functional_call, grad, jacfwd, jacrev, vmap

import setpred as sp

SETS, TARGET, VECTORS = torch.randn(2, 3, 4), torch.randn(2, 3, 4), torch.randn(2, 8)
DECODER = sp.iDSPN(sp.SetEncoder(dim=2, hidden=8, latent=8, size=3)).eval()
FUNCTIONS = {
    "decoder": (DECODER, VECTORS),
    "unrolled": (sp.DSPN(sp.SetEncoder(dim=2, hidden=8, latent=8, size=3)).eval(), VECTORS),
    "hungarian loss": (lambda sets: sp.hungarian_loss(sets, TARGET), SETS),
    "chamfer loss": (lambda sets: sp.chamfer_loss(sets, TARGET), SETS),
    "assignment": (lambda cost: sp.assign(cost).target, SETS),
    "pooling": (sp.FSPool(4, 3), SETS),
    "simplex": (sp.Simplex(), SETS),
}
TRANSFORMS = {
    "vmap": lambda fn: lambda x: vmap(fn)(x[None]),
    "grad": lambda fn: grad(lambda x: fn(x).sum()),
    "jacrev": jacrev,
    "jacfwd": jacfwd,
}
WORK = {("vmap", "pooling"), ("vmap", "simplex")}


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_transform_works_or_is_refused_in_a_sentence(transform, name):
    fn, x = FUNCTIONS[name]
    if (transform, name) in WORK:
        torch.testing.assert_close(TRANSFORMS[transform](fn)(x)[0], fn(x))
        return
    with pytest.raises(
        ValueError, match=r"cannot be inside torch.func's vmap.*torch.autograd.functional.jacobian"
    ) as error:
        TRANSFORMS[transform](fn)(x)
    assert "\n" not in str(error.value)


def test_what_the_sentence_recommends_works():
    assert torch.autograd.functional.jacobian(DECODER, VECTORS).shape == (2, 3, 2, 2, 8)
    assert functional_call(DECODER, dict(DECODER.named_parameters()), (VECTORS,)).shape == (2, 3, 2)
