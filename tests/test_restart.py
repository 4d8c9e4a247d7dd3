"""A second start goes to the examples that need it, and never makes an inner loss worse."""

import pytest
import torch

import setpred as sp


def make(restart=None, **parts):
    torch.manual_seed(0)
    encoder = sp.SetEncoder(dim=2, hidden=16, latent=8, size=4)
    return sp.iDSPN(encoder, size=4, dim=2, solver=sp.Nesterov(steps=6), restart=restart, **parts).eval()


@pytest.fixture(params=[sp.RandomInit, sp.LearnedInit, lambda: sp.GuessedInit(8)], ids=["random", "learned", "guessed"])
def both(request):
    """A decoder that starts once, one that restarts a fifth of the examples, and these."""
    once, twice = make(init=request.param()), make(sp.Restart(fraction=0.2), init=request.param())
    twice.load_state_dict(once.state_dict(), strict=False)
    z = 2 * torch.randn(50, 8)
    with twice.restart.fitting():
        twice(z)
    return once, twice, z


def test_only_suspects_start_again_and_the_lower_inner_loss_is_kept(both):
    once, twice, z = both
    first, second = once.solve(z), twice.solve(z)
    assert second.restarted.equal(first.last_loss > first.last_loss.quantile(0.8))
    assert second.restarted.sum() == 10
    assert (second.last_loss <= first.last_loss).all()
    assert (second.last_loss < first.last_loss).any()
    assert second.sets[~second.restarted].equal(first.sets[~second.restarted])


def test_the_inner_loss_of_a_second_start_is_that_of_the_same_problem(both):
    once, twice, z = both
    second = twice.solve(z)
    objective = once._problem(z, None, None)
    once._start(objective, None, None)
    torch.testing.assert_close(second.loss, objective.loss(second.sets))


def test_a_diverged_example_starts_again():
    decoder = make(sp.Restart())
    decoder.solver = sp.Nesterov(steps=8, lr=2e3)
    z = torch.randn(5, 8)
    assert not decoder.solve(z).restarted.any(), "nothing was learned yet"
    decoder.restart.threshold.fill_(1e9)
    solution = decoder.solve(z)
    assert solution.diverged.all()
    assert solution.restarted.all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_every_precision_is_fitted_and_restarts(dtype):
    decoder = make(sp.Restart(fraction=0.5)).to(dtype)
    z = torch.randn(16, 8).to(dtype)
    with decoder.restart.fitting():
        decoder(z)
    assert decoder.restart.threshold.isfinite()
    assert decoder.solve(z).restarted.any()


@pytest.mark.parametrize("parts", [1, 7])
def test_the_fraction_is_that_of_all_examples_decoded_while_it_is_fitted(parts):
    decoder = make(sp.Restart(fraction=0.1))
    z = torch.randn(490, 8)
    for scale in (3.0, 1.0):  # what was known before does not count
        with decoder.restart.fitting():
            for part in (scale * z).chunk(parts):
                assert not decoder.solve(part).restarted.any()
    assert decoder.solve(z).restarted.sum() == 49


def test_a_fit_without_examples_or_with_an_error_leaves_every_example_at_one_start():
    decoder = make(sp.Restart())
    with decoder.restart.fitting():
        pass
    with pytest.raises(ValueError, match="z"), decoder.restart.fitting():
        decoder(torch.randn(4, 3))
    assert not decoder.solve(9 * torch.randn(50, 8)).restarted.any()


def test_a_prediction_depends_on_its_input_alone(both):
    _, twice, z = both
    sets = twice(z)
    for part in (slice(0, 7), slice(7, 50)):
        torch.testing.assert_close(twice(z[part]), sets[part])
    assert twice.solve(z).sets.equal(sets)


def test_a_start_of_ones_own_is_not_replaced(both):
    once, twice, z = both
    start = torch.randn(50, 4, 2)
    assert twice(z, init=start).equal(once(z, init=start))


def test_the_trace_is_that_of_the_start_that_was_kept(both):
    _, twice, z = both
    solution = twice.solve(z, trace=True)
    assert solution.trace is not None
    assert solution.trace.sets[-1].equal(solution.sets)
    assert solution.trace.loss[-2].equal(solution.last_loss)


def test_training_starts_once(both):
    _, twice, z = both
    assert twice.solve(z).restarted.any()
    assert not twice.train().solve(z).restarted.any()


def test_gradients_come_back_through_the_start_that_was_kept(both):
    _, twice, z = both
    z.requires_grad_()
    twice(z).square().sum().backward()
    assert z.grad is not None
    assert (z.grad.abs().sum(dim=1) > 0).all()


def test_the_threshold_is_saved(both, tmp_path):
    _, twice, z = both
    twice.save_pretrained(tmp_path)
    assert sp.iDSPN.from_pretrained(tmp_path).eval()(z).equal(twice(z))


@pytest.mark.parametrize("arguments", [{"fraction": 0.0}, {"fraction": 1.0}, {"std": 0.0}, {"std": float("inf")}])
def test_restarts_that_make_no_sense_are_refused(arguments):
    with pytest.raises(ValueError, match=next(iter(arguments))):
        sp.Restart(**arguments)
