"""The decoder as its users meet it."""

import warnings

import pytest
import torch
from torch import nn

import setpred as sp

LATENT = 16


def make(decoder_class=sp.iDSPN, size=4, dim=2, pool="fs", **parts):
    encoder = sp.SetEncoder(dim=dim, hidden=16, latent=LATENT, size=size, pool=pool)
    parts.setdefault("solver", sp.Nesterov(steps=8))
    return decoder_class(encoder, size=size, dim=dim, **parts)


def test_the_paper_in_ten_lines_learns():
    """An autoencoder of random sets improves by an order of magnitude in a few hundred steps."""
    x = torch.randn(512, 3, 2)
    encoder = sp.SetEncoder(dim=2, hidden=64, latent=64, size=3)
    decoder = sp.iDSPN(sp.SetEncoder(dim=2, hidden=64, latent=64, size=3), size=3, dim=2, init=sp.LearnedInit())
    optimiser = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=3e-3)
    losses = []
    for step in range(120):
        batch = x[torch.randint(512, (32,), generator=torch.Generator().manual_seed(step))]
        loss = (decoder(encoder(batch)).sort(1).values - batch.sort(1).values).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert sum(losses[-10:]) < sum(losses[:10]) / 5


def test_equal_elements_are_separated_with_fspool_and_not_with_sum():
    z = torch.randn(5, LATENT)
    for pool, separated in [("fs", True), ("sum", False), ("mean", False)]:
        sets = make(pool=pool, init=sp.ZeroInit())(z)
        spread = (sets - sets[:, :1]).abs().amax(dim=(1, 2))
        assert ((spread > 1e-3) == separated).all(), pool


def test_an_example_does_not_depend_on_its_batch():
    decoder, z = make().double().eval(), torch.randn(6, LATENT).double()
    torch.testing.assert_close(decoder(z)[2:3], decoder(z[2:3]), rtol=0, atol=1e-12)


def test_eval_is_deterministic_and_training_is_not():
    decoder, z = make(), torch.randn(3, LATENT)
    assert not torch.equal(decoder(z), decoder(z))
    decoder.eval()
    assert torch.equal(decoder(z), decoder(z))
    seeded = [decoder(z, generator=torch.Generator().manual_seed(s)) for s in (1, 1, 2)]
    assert torch.equal(seeded[0], seeded[1])
    assert not torch.equal(seeded[0], seeded[2])


def test_equal_inputs_get_equal_predictions_wherever_they_stand_in_the_batch():
    decoder, z = make().double().eval(), torch.randn(1, LATENT).double()
    sets = decoder(z.expand(7, -1).contiguous())
    torch.testing.assert_close(sets, sets[:1].expand_as(sets), rtol=0, atol=1e-12)


def test_steps_can_differ_in_evaluation():
    decoder, z = make(solver=sp.GradientDescent(steps=3, eval_steps=9), init=sp.ZeroInit()), torch.randn(2, LATENT)
    nine = decoder.solve(z, steps=9).sets
    assert torch.equal(decoder.solve(z).sets, decoder.solve(z, steps=3).sets)
    assert torch.equal(decoder.eval().solve(z).sets, nine)
    assert torch.equal(decoder(z), nine)


def test_the_solution_says_how_good_it_is():
    decoder, z = make(), torch.randn(3, LATENT)
    solution = decoder.solve(z, steps=5, trace=True)
    loss = 0.5 * (decoder.encoder(solution.sets) - z).square().mean(dim=1)
    torch.testing.assert_close(solution.loss, loss)
    assert solution.trace.sets.shape == (6, 3, 4, 2)
    assert torch.equal(solution.trace.sets[-1], solution.sets)
    torch.testing.assert_close(solution.trace.loss[-1], loss)
    assert solution.trace.loss.shape == solution.trace.grad_norm.shape == (6, 3)
    assert (solution.trace.loss[-1] < solution.trace.loss[0]).all()
    assert not solution.diverged.any()


def test_diagnostics_come_with_every_forward():
    decoder = make(solver=sp.Nesterov(steps=4, clip=1e-3))
    decoder(torch.randn(3, LATENT)).sum().backward()
    diagnostics = {name: value.item() for name, value in decoder.diagnostics.items()}
    assert diagnostics["clipped"] == 1.0
    assert diagnostics["diverged"] == 0.0
    assert diagnostics["inner_loss"] > 0
    assert diagnostics["inner_grad_norm"] > 0
    assert not any(value.requires_grad for value in decoder.diagnostics.values())


def test_known_dimensions_and_elements_stay_as_given():
    decoder, z = make(), torch.randn(3, LATENT)
    values = torch.randn(3, 4, 2)
    given = torch.zeros(3, 4, 2, dtype=torch.bool)
    given[:, :, 0] = True
    given[:, 1] = True
    trace = decoder.solve(z, known=(values, given), trace=True).trace
    assert torch.equal(trace.sets[:, given], values[given].expand(9, -1))
    assert (trace.sets[-1] != trace.sets[0])[~given].all()
    assert (trace.loss[-1] < trace.loss[0]).all()


def test_a_known_dimension_can_be_given_for_all_examples_at_once():
    decoder, z = make(), torch.randn(3, LATENT)
    sets = decoder(z, known=(torch.tensor([7.0, 0.0]), torch.tensor([True, False])))
    assert sets[..., 0].eq(7).all()


def test_sets_of_different_sizes():
    """Padding comes out as zeros, and the rest as a smaller decoder alone would find it."""
    decoder, z = make().double(), torch.randn(3, LATENT).double()
    mask = torch.arange(4) < torch.tensor([[1], [3], [4]])
    start = torch.randn(3, 4, 2).double()
    sets = decoder(z, mask=mask, init=start)
    assert sets[~mask].eq(0).all()
    alone = decoder(z[1:2], mask=mask[1:2], init=start[1:2] + 5 * (~mask[1:2, :, None]))
    torch.testing.assert_close(sets[1:2], alone)
    sets.square().sum().backward()
    assert all(p.grad.isfinite().all() for p in decoder.parameters())


def test_what_is_known_of_an_element_that_does_not_exist_does_not_matter():
    decoder, z = make().eval(), torch.randn(3, LATENT)
    mask = torch.arange(4) < torch.tensor([[1], [3], [4]])
    given = torch.tensor([True, False])
    for values in (torch.ones(3, 4, 2), torch.ones(3, 4, 2).masked_fill(~mask[..., None], 9.0)):
        sets = decoder(z, mask=mask, known=(values, given))
        assert sets[~mask].eq(0).all()
        assert sets[mask][:, 0].eq(1).all()


def test_a_step_that_leaves_the_finite_numbers_at_the_very_end_is_noticed():
    decoder = make(solver=sp.Nesterov(steps=3, lr=lambda t: 1.0 if t < 2 else torch.inf))
    assert decoder(torch.randn(2, LATENT)).isfinite().all()
    assert decoder.diagnostics["diverged"] == 1


def test_a_tolerance_stops_the_compiled_loop_too():
    decoder, z = make(solver=sp.Nesterov(steps=50, tol=1e6), init=sp.LearnedInit()), torch.randn(3, LATENT)
    with torch.no_grad():
        assert torch.equal(decoder(z), decoder.init.sets.expand(3, 4, 2))


def test_an_empty_set_is_a_set():
    decoder, z = make(), torch.randn(2, LATENT)
    sets = decoder(z, mask=torch.zeros(2, 4, dtype=torch.bool))
    assert sets.eq(0).all()


def test_any_module_can_be_the_encoder():
    class Moments(nn.Module):
        def forward(self, sets):
            return torch.cat([sets.mean(1), sets.square().mean(1), sets.pow(3).mean(1)], dim=-1)

    decoder = sp.iDSPN(Moments(), size=6, dim=1, solver=sp.Nesterov(steps=300, lr=0.1))
    target = torch.tensor([[0.0, 1.0, 0.0]])
    solution = decoder.solve(target)
    torch.testing.assert_close(decoder.encoder(solution.sets), target, atol=0.02, rtol=0)


@pytest.mark.parametrize("decoder_class", [sp.iDSPN, sp.DSPN])
@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad])
def test_evaluation_modes_give_the_same_sets(decoder_class, mode):
    decoder, z = make(decoder_class).double().eval(), torch.randn(3, LATENT).double()
    with mode():
        inside = decoder(z * 1, known=(torch.zeros(3, 4, 2), torch.zeros(3, 4, 2, dtype=torch.bool)))
    assert torch.equal(inside, decoder(z).detach())
    assert not inside.requires_grad


def test_autocast_does_not_coarsen_the_inner_loop():
    decoder, z = make().eval(), torch.randn(3, LATENT)
    with torch.autocast("cpu", torch.bfloat16):
        inside = decoder(z.bfloat16())
    assert inside.dtype == torch.float32
    assert torch.equal(inside, decoder(z.bfloat16().float()))


@pytest.mark.usefixtures("three_threads")
@pytest.mark.parametrize("pool", ["fs", "sum", "mean"])
@pytest.mark.parametrize("constraint", [None, sp.PerSlice({(0, 2): sp.Simplex()}), sp.Ball(0.4)], ids=str)
def test_the_compiled_loop_finds_what_autograd_finds(pool, constraint):
    """In float32 the plain encoder runs compiled, on all cores; a hook that does nothing sends it through autograd."""
    mask = torch.arange(4) < torch.randint(1, 5, (33, 1))
    given = torch.tensor([False, False, True]) if not isinstance(constraint, sp.Ball) else torch.arange(4)[:, None] < 1
    known = (torch.rand(3), given)
    solver = sp.Nesterov(steps=6, clip=0.3)
    decoder = make(pool=pool, dim=3, init=sp.LearnedInit(), solver=solver, constraint=constraint)
    z, ways = torch.randn(33, LATENT), [{}, {"mask": mask}, {"known": known}, {"mask": mask, "known": known}]
    compiled = [decoder.solve(z, **way) for way in ways]
    decoder.encoder.register_forward_hook(lambda *_: None)
    plain = [decoder.solve(z, **way) for way in ways]
    for fast, slow in zip(compiled, plain, strict=True):
        torch.testing.assert_close(fast.sets, slow.sets, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(fast.loss, slow.loss, atol=1e-5, rtol=1e-4)
        assert torch.equal(fast.clipped, slow.clipped)


class Explosive(nn.Module):
    """Descends calmly for most vectors; where z is large the curvature makes every step overshoot further."""

    def __init__(self, size=4, dim=2, latent=LATENT):
        super().__init__()
        self.linear = nn.Linear(size * dim, latent)

    def forward(self, sets):
        return self.linear(sets.flatten(1)) + sets.flatten(1).pow(3).sum(1, keepdim=True)


@pytest.mark.parametrize("decoder_class", [sp.iDSPN, sp.DSPN])
def test_a_diverging_example_is_flagged_and_does_not_poison_the_batch(decoder_class):
    decoder = decoder_class(Explosive(), size=4, dim=2, solver=sp.Nesterov(steps=40)).eval()
    z = 0.1 * torch.randn(5, LATENT)
    z[2] = 1e3
    solution = decoder.solve(z, trace=True)
    assert solution.diverged.tolist() == [False, False, True, False, False]
    assert solution.sets.isfinite().all()
    losses = solution.trace.loss[:, 2]
    assert solution.loss[2] == losses[losses.isfinite()].min()
    assert not solution.trace.sets[-1, 2].isfinite().all()

    calm = decoder.solve(z[[0, 1, 3, 4]])
    torch.testing.assert_close(solution.sets[[0, 1, 3, 4]], calm.sets)
    decoder(z).square().sum().backward()
    with_diverged = decoder.encoder.linear.weight.grad.clone()
    decoder.zero_grad()
    decoder(z[[0, 1, 3, 4]]).square().sum().backward()
    torch.testing.assert_close(with_diverged, decoder.encoder.linear.weight.grad)
    assert decoder.diagnostics["diverged"] == 0
    decoder(z)
    assert decoder.diagnostics["diverged"] == pytest.approx(0.2)


def test_an_inner_loss_that_blows_up_is_flagged_though_it_is_still_a_number():
    decoder = make(solver=sp.Nesterov(steps=8, lr=2e3)).eval()
    solution = decoder.solve(torch.randn(6, LATENT), trace=True)
    assert solution.trace.loss[-1].isfinite().all()
    assert solution.diverged.all()
    assert solution.loss.equal(solution.trace.loss.amin(dim=0))
    assert not make(solver=sp.Nesterov(steps=8)).eval().solve(torch.randn(6, LATENT)).diverged.any()


def test_a_batch_that_diverges_as_a_whole_still_returns():
    decoder = sp.iDSPN(Explosive(), size=4, dim=2, solver=sp.Nesterov(steps=40))
    z = torch.full((3, LATENT), 1e3, requires_grad=True)
    sets = decoder(z)
    assert sets.isfinite().all()
    assert decoder.diagnostics["diverged"] == 1
    sets.square().sum().backward()
    assert all(source.grad.eq(0).all() for source in (z, *decoder.parameters()))


def test_the_share_of_clipped_gradients_is_the_example_s_own():
    decoder, z = make(solver=sp.Nesterov(steps=40, clip=0.02, tol=0.01)).eval(), torch.randn(6, LATENT)
    together = decoder.solve(z).clipped
    torch.testing.assert_close(together, torch.cat([decoder.solve(one).clipped for one in z.split(1)]))
    assert together.unique().numel() > 1


def test_the_default_device_does_not_matter():
    decoder, z = make(constraint=sp.Simplex(), restart=sp.Restart(fraction=0.5)).eval(), torch.randn(3, LATENT)
    decoder.restart.threshold.fill_(0.0)
    expected = decoder(z)
    with torch.device("meta"):
        assert torch.equal(decoder(z), expected)


def test_what_an_encoder_of_one_s_own_calls_dim_is_its_own_matter():
    class Wide(nn.Module):
        def __init__(self, dim=64):
            super().__init__()
            self.dim, self.layer = dim, nn.Linear(2, dim)

        def forward(self, sets):
            return self.layer(sets).relu().sum(1)

    assert sp.iDSPN(Wide(), size=3, dim=2)(torch.randn(1, 64)).shape == (1, 3, 2)


def test_an_empty_batch_is_a_batch():
    decoder = make()
    assert decoder(torch.zeros(0, LATENT)).shape == (0, 4, 2)
    assert all(value == 0 for value in decoder.diagnostics.values())


def test_how_arguments_lie_in_memory_does_not_matter():
    decoder, z = make().eval(), torch.randn(LATENT, 3).T
    turned = torch.randn(3, 2, 4).mT, torch.rand(3, 2, 4).mT < 0.5, torch.randn(3, 2, 4).mT
    straight = [x.contiguous() for x in turned]
    for turns, plain in ((turned[:2], straight[:2]), (None, None)):
        sets = decoder(z, known=turns, init=turned[2])
        assert torch.equal(sets, decoder(z.contiguous(), known=plain, init=straight[2]))


@pytest.mark.parametrize("adjoint", [sp.Identity(), sp.ConjugateGradient(2), sp.Unrolled()], ids=str)
def test_a_model_around_the_decoder_can_be_compiled(adjoint):
    """The compiler cannot record the gradient of a gradient: it leaves the decoder as it is."""
    model = nn.Sequential(nn.Linear(5, LATENT), make(init=sp.ZeroInit(), adjoint=adjoint))
    x = torch.randn(3, 5)
    plain = torch.autograd.grad(model(x).square().sum(), model[0].weight)
    compiled = torch.compile(model, backend="aot_eager")
    torch.testing.assert_close(torch.autograd.grad(compiled(x).square().sum(), model[0].weight), plain)


def test_decoders_can_share_a_learned_start_of_one_shape():
    init = sp.LearnedInit()
    first, second = make(init=init), make(init=init)
    assert first.init.sets is second.init.sets
    with pytest.raises(ValueError, match=r"starts sets of \[4, 2\], this decoder needs \[5, 2\]"):
        make(init=init, size=5)


def test_whole_elements_and_whole_fields_can_be_known_under_a_constraint():
    constraint = sp.PerSlice({(0, 2): sp.Simplex(), (2, 3): sp.Box(0.0, 1.0)})
    decoder, z = make(dim=3, constraint=constraint), torch.randn(2, LATENT)
    values, given = constraint(torch.randn(2, 4, 3)), torch.zeros(2, 4, 3, dtype=torch.bool)
    given[:, 0], given[0, 1, :2], given[1, :, 2] = True, True, True
    sets = decoder(z, known=(values, given))
    assert torch.equal(sets[given], values[given])
    torch.testing.assert_close(constraint(sets), sets)
    given[1, 2, 0] = True
    with pytest.raises(ValueError, match=r"known gives a part of numbers that PerSlice.* ties together: give all"):
        decoder(z, known=(values, given))


def test_hooks_and_parametrisations_of_the_encoder_are_honoured():
    decoder, z = make(init=sp.ZeroInit()), torch.randn(2, LATENT)
    plain = decoder(z)
    handle = decoder.encoder.net[2].register_forward_hook(lambda module, inputs, output: 2 * output)
    assert not torch.allclose(decoder(z), plain)
    handle.remove()
    torch.testing.assert_close(decoder(z), plain)
    nn.utils.parametrizations.weight_norm(decoder.encoder.net[0])
    decoder(z).square().sum().backward()
    assert decoder.encoder.net[0].parametrizations.weight.original0.grad is not None


def test_the_decoder_is_quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make()(torch.randn(2, LATENT, requires_grad=True)).sum().backward()


@pytest.mark.parametrize("kind", [sp.SetEncoder, sp.RelationEncoder])
@pytest.mark.parametrize("told", [{}, {"size": 3}, {"dim": 2}, {"size": 3, "dim": 2}], ids=str)
def test_the_encoder_says_how_large_the_sets_are(kind, told):
    decoder = sp.iDSPN(kind(dim=2, hidden=8, latent=8, size=3), **told)
    assert (decoder.size, decoder.dim) == (3, 2)
    assert decoder(torch.randn(4, 8)).shape == (4, 3, 2)


def test_an_attribute_that_is_no_number_says_nothing_about_the_sets():
    encoder = nn.Flatten()
    encoder.size, encoder.dim = sum, "two"
    assert sp.iDSPN(encoder, size=3, dim=2)(torch.zeros(1, 6)).shape == (1, 3, 2)


DECODER = make()
Z = torch.randn(2, LATENT)
MISTAKES = {
    "one vector": (lambda: DECODER(Z[0]), r"z is \[16\] torch.float32, the decoder takes vectors \[batch, latent\]"),
    "integers": (lambda: DECODER(Z.long()), "z is .* torch.int64"),
    "a list": (lambda: DECODER([1.0]), "z is list"),
    "wrong latent": (lambda: DECODER(Z[:, :5]), r"the encoder gives \[2, 16\] .* z is \[2, 5\]"),
    "float64": (lambda: DECODER(Z.double()), "z is torch.float64, the encoder torch.float32: convert one"),
    "another device": (lambda: DECODER(Z.to("meta")), "z is on meta, the encoder on cpu: move one of them"),
    "NaN": (lambda: DECODER(torch.stack([Z[0], Z[1] * torch.nan])), "z of example 1 holds NaN or infinity"),
    "mask shape": (lambda: DECODER(Z, mask=torch.ones(2, 3, dtype=torch.bool)), r"mask is \[2, 3\].* pass \[2, 4\]"),
    "mask dtype": (lambda: DECODER(Z, mask=torch.ones(2, 4)), r"mask is \[2, 4\] torch.float32"),
    "known shape": (lambda: DECODER(Z, known=(torch.zeros(3), torch.zeros(3).bool())), r"both must fit \[2, 4, 2\]"),
    "known dtype": (lambda: DECODER(Z, known=(torch.zeros(2), torch.zeros(2))), "must be torch.bool"),
    "known NaN": (
        lambda: DECODER(Z, known=(torch.full((2,), torch.nan), torch.ones(2).bool())),
        "known holds NaN or infinity",
    ),
    "init shape": (lambda: DECODER(Z, init=torch.zeros(5, 2)), r"init is \[5, 2\], .* \[2, 4, 2\] or \[4, 2\]"),
    "init NaN": (lambda: DECODER(Z, init=torch.full((4, 2), torch.nan)), "init holds NaN or infinity"),
    "a list to start": (lambda: DECODER(Z, init=[[0.0, 0.0]] * 4), "init is list: pass a tensor"),
    "a list as mask": (lambda: DECODER(Z, mask=[[True] * 4] * 2), "mask is list: pass a tensor"),
    "known without mask": (lambda: DECODER(Z, known=torch.zeros(2, 4, 2)), "known is Tensor: pass a pair"),
    "known array": (lambda: DECODER(Z, known=(Z.numpy(), Z > 0)), "the values of known is ndarray: pass a tensor"),
    "a class": (lambda: sp.iDSPN(DECODER.encoder, 4, 2, solver=torch.optim.Adam), "solver is the class Adam: pass"),
    "a function": (lambda: sp.iDSPN(lambda x: x.sum(1), 4, 2), "encoder is of type function: pass an .* Module"),
    "no steps": (lambda: DECODER.solve(Z, steps=0), "steps is 0"),
    "steps without end": (lambda: DECODER.solve(Z, steps=10**30), "it must be a whole number from 1 to 1,000,000"),
    "size": (lambda: sp.iDSPN(DECODER.encoder, size=12, dim=2), "encoder is built for size=4, the decoder for size=12"),
    "dim": (lambda: sp.iDSPN(DECODER.encoder, size=4, dim=3), "encoder is built for dim=2, the decoder for dim=3"),
    "no size": (lambda: sp.iDSPN(nn.Flatten(), dim=2), "Flatten does not say its size: pass size= to the decoder"),
    "no dim": (lambda: sp.iDSPN(nn.Flatten(), size=2), "Flatten does not say its dim: pass dim= to the decoder"),
    "empty": (lambda: sp.iDSPN(nn.Flatten(), size=0, dim=2), "at least one element"),
    "a guess from another vector": (
        lambda: make(init=sp.GuessedInit(LATENT + 1))(torch.zeros(2, LATENT)),
        "they must agree",
    ),
    "negative spread": (lambda: sp.RandomInit(-1.0), "spread of the initial set cannot be negative"),
    "constant encoder": (
        lambda: sp.iDSPN(Constant(), size=4, dim=2)(torch.zeros(2, 3)),
        "the encoding does not depend on the set",
    ),
    "no mask": (
        lambda: sp.iDSPN(nn.Flatten(), size=2, dim=2)(torch.zeros(1, 4), mask=torch.ones(1, 2).bool()),
        "Flatten takes no mask",
    ),
}


class Constant(nn.Module):
    def __init__(self):
        super().__init__()
        self.value = nn.Parameter(torch.zeros(3))

    def forward(self, sets):
        return self.value.expand(len(sets), 3)


@pytest.mark.parametrize(("act", "message"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_named_in_one_line(act, message):
    with pytest.raises(ValueError, match=message) as caught:
        act()
    assert "\n" not in str(caught.value)


def test_a_start_outside_the_constraint_is_left_there_if_asked():
    encoder = sp.SetEncoder(dim=2, hidden=8, latent=6, size=4)
    start = torch.full((1, 4, 2), 3.0)
    for projected, first in ((True, 1.0), (False, 3.0)):
        decoder = sp.iDSPN(encoder, init=sp.RandomInit(projected=projected), constraint=sp.Box(0.0, 1.0))
        trace = decoder.solve(torch.randn(1, 6), init=start, steps=2, trace=True).trace
        assert (trace.sets[0] == first).all()
        assert trace.sets[1:].max() <= 1
