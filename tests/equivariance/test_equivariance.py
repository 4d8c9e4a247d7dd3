import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from setpred import GradientDescent, SetDecoder, SetEncoder, equivariance
from setpred.equivariance import check, continuity, hard_sets, push_apart, sort_jacobian
from setpred.equivariance.probing import SameRows

few = settings(max_examples=10, deadline=None)
seeds = st.integers(0, 2**31)


def in_memory_order(sets: Tensor) -> Tensor:
    """Adds its place to each element: neither kind of equivariance."""
    return sets + torch.arange(sets.shape[1], dtype=sets.dtype)[:, None]


def sorted_anywhere(sets: Tensor) -> Tensor:
    """Equal as a multiset after every permutation, but not element by element."""
    return sets.sort(dim=1).values


@given(seed=seeds, size=st.integers(1, 6), dim=st.integers(1, 3))
@few
def test_a_function_of_each_element_and_of_the_mean_is_set_equivariant(seed, size, dim):
    report = check(lambda X: X.tanh() * X.mean(dim=(1, 2), keepdim=True), size=size, dim=dim, seed=seed)
    assert report.set_equivariant
    assert report.multiset_equivariant
    assert not report.exclusive
    assert report.witness is None


@given(seed=seeds, size=st.integers(2, 6), dim=st.integers(1, 3))
@few
def test_a_function_of_the_place_in_memory_is_neither(seed, size, dim):
    report = check(in_memory_order, size=size, dim=dim, seed=seed)
    assert not report.set_equivariant
    assert not report.multiset_equivariant
    assert not report.exclusive


def test_equal_outputs_as_multisets_are_not_enough():
    report = check(sorted_anywhere, torch.tensor([[1.0], [2.0]]))
    assert not report.multiset_equivariant


def test_elements_that_met_on_the_way_get_a_verdict_of_their_own():
    """push_apart separates by index what the relu has made equal."""
    X = torch.tensor([[-1.0], [-2.0], [3.0]])
    report = check(lambda X: push_apart(X.relu()), X)
    assert not report.multiset_equivariant
    assert report.exchanging
    assert "but for elements that met on the way" in report.verdict
    witness = report.witness
    assert witness.p2 is None
    assert torch.equal(push_apart(X.relu()[None])[0][witness.exchange], witness.of_permuted)
    assert "different elements changed places" in repr(witness)
    assert not check(in_memory_order, size=4).exchanging
    assert not check(push_apart, size=4).exchanging


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rows", [1, 7, 48, 192, 255])
def test_products_inside_do_not_depend_on_the_place_of_a_row(rows, dtype):
    """Fast libraries compute rows in blocks, and equal ones may differ in the last bit."""
    g = torch.Generator().manual_seed(0)
    for inner, columns in ((3, 5), (12, 64), (33, 17), (64, 64), (130, 31)):
        row = torch.randn(1, inner, generator=g, dtype=dtype)
        weight = torch.randn(inner, columns, generator=g, dtype=dtype)
        with SameRows():
            found = row.expand(rows, inner).contiguous() @ weight
            single = torch.addmm(torch.zeros(columns, dtype=dtype), row, weight)
        assert torch.equal(found, single.expand_as(found))
        torch.testing.assert_close(found, (row @ weight).expand_as(found))


@pytest.mark.parametrize("steps", [5, 20])
@pytest.mark.parametrize("seed", range(3))
def test_a_decoder_that_sorts_is_exclusively_multiset_equivariant_on_every_processor(seed, steps):
    torch.manual_seed(seed)
    encoder = SetEncoder(dim=3, hidden=48, latent=48, size=6).double()
    decoder = SetDecoder(encoder, solver=GradientDescent(steps=steps)).eval()
    z = torch.randn(1, 48, dtype=torch.float64)
    assert check(lambda start: decoder(z.expand(len(start), -1), init=start).detach(), size=6, dim=3).exclusive


@pytest.mark.parametrize("seed", range(2))
def test_the_numbering_of_the_demo_by_dspn_is_what_the_paper_says(seed):
    """With the products of MKL it was neither on some processors."""
    from setpred.demo import NUMBERING
    from setpred.tasks import make_experiment, make_settings

    torch.manual_seed(seed)
    settings = make_settings("numbering", "dspn", "quick-best", overrides={**NUMBERING, "data.test": 8})
    assert make_experiment(settings).eval().double().check().exclusive


def test_a_multiset_witness_can_be_checked_by_hand_over_all_permutations():
    witness = check(in_memory_order, size=4).witness
    assert witness.failed == "multiset-equivariance"
    assert witness.p2 is None
    X, out = witness.X, in_memory_order(witness.X[None])[0]
    assert torch.equal(in_memory_order(X[witness.p1][None])[0], witness.of_permuted)
    assert torch.equal(out[witness.p1], witness.permuted)
    for p2 in itertools.permutations(range(4)):
        same_input = torch.equal(X[list(p2)], X[witness.p1])
        assert not (same_input and torch.allclose(out[list(p2)], witness.of_permuted))


def test_a_set_witness_carries_the_p2_that_saves_multiset_equivariance():
    report = check(push_apart, size=4)
    witness = report.witness
    assert report.exclusive
    assert witness.failed == "set-equivariance"
    assert torch.equal(witness.X[witness.p2], witness.X[witness.p1])
    assert torch.equal(push_apart(witness.X)[witness.p2], witness.of_permuted)
    assert witness.deviation == pytest.approx(float((witness.of_permuted - witness.permuted).abs().max()))


def test_p2_is_found_within_the_tolerance_although_another_matching_has_a_smaller_sum():
    straight = torch.tensor([[0.0, 0.0], [0.6, 0.0], [9.0, 9.0]])
    reverse = torch.tensor([[9.0, 9.0], [0.6, 0.0], [0.9, 0.6]])

    def fn(sets: Tensor) -> Tensor:
        return torch.stack([straight if X[0] == 0 else reverse for X in sets])

    X = torch.tensor([[0.0], [0.0], [1.0]])
    assert check(fn, X, permutations=1, tolerance=0.07).exclusive
    assert not check(fn, X, permutations=1, tolerance=0.05).multiset_equivariant


def test_reports_say_their_noise_convention_and_their_verdict():
    assert "no noise" in repr(check(push_apart))
    assert "exclusively multiset-equivariant" in repr(check(push_apart))
    text = repr(check(lambda X, N: X + N, noise_dim=1, noise="fixed"))
    assert "neither" in text
    assert "noise fixed" in text


def test_inputs_without_equal_elements_are_said_to_be_undecided():
    report = check(push_apart, torch.tensor([[1.0], [2.0]]))
    assert report.tried_with_equals == 0
    assert "no input had equal elements" in repr(report)


@given(seed=seeds)
@few
def test_the_noise_convention_changes_the_verdict(seed):
    def add(sets: Tensor, noise: Tensor) -> Tensor:
        return sets + noise

    assert check(add, noise_dim=1, noise="joint", seed=seed).set_equivariant
    assert check(add, noise_dim=1, noise="zero", seed=seed).set_equivariant
    assert not check(add, noise_dim=1, noise="fixed", seed=seed).multiset_equivariant


def test_with_joint_noise_elements_are_equal_only_if_their_noise_is():
    def number_equal_classes(sets: Tensor, noise: Tensor) -> Tensor:
        same = (sets[:, :, None] == sets[:, None]).all(dim=-1)
        return same.tril(-1).sum(dim=-1, keepdim=True).to(sets)

    assert check(number_equal_classes, noise_dim=1, noise="zero").exclusive
    assert check(number_equal_classes, noise_dim=1, noise="fixed").exclusive
    assert not check(number_equal_classes, noise_dim=1, noise="joint").multiset_equivariant


def test_verdicts_do_not_depend_on_the_scale_of_the_output():
    for scale in (1e-8, 1.0, 1e8):
        assert check(lambda X, scale=scale: scale * sort_jacobian(X)).exclusive
        assert check(lambda X, scale=scale: scale * X.mean(1, keepdim=True).expand_as(X)).set_equivariant


def test_a_float32_module_is_asked_in_float32_and_others_in_float64():
    report = check(nn.Linear(2, 3), dim=2)
    assert report.dtype == torch.float32
    assert report.set_equivariant
    assert check(nn.Linear(2, 3).double(), dim=2).dtype == torch.float64
    assert check(lambda X: push_apart(X.float())).exclusive


def test_fn_may_change_its_input_in_place():
    assert check(lambda X: X.mul_(2)).set_equivariant


def test_hard_sets_hold_equal_near_and_partly_equal_elements():
    sets = hard_sets(size=6, dim=2, copies=2)
    gaps = torch.cdist(sets, sets) + torch.eye(6) * 9
    assert sets.shape == (14, 6, 2)
    assert (gaps == 0).any()
    assert ((gaps > 0) & (gaps < 1e-4)).any()
    assert ((sets[:, :, None] == sets[:, None]).sum(dim=-1) == 1).any()


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (lambda X: X[:, 1:], "it must return"),
        (lambda X: X.sum(dim=1), "it must return"),
        (lambda X: (X, X), "fn returned tuple"),
        (lambda X: X.log(), "NaN or infinity for input"),
        (lambda X: X + torch.rand_like(X), "answers differently"),
    ],
)
def test_a_function_that_cannot_be_checked_is_refused_in_one_line(fn, message):
    with pytest.raises(ValueError, match=message) as error:
        check(fn)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"inputs": torch.zeros(3)}, "inputs have shape"),
        ({"inputs": torch.zeros(2, 0, 1)}, "inputs have shape"),
        ({"inputs": torch.zeros(3, 1, dtype=torch.long)}, "inputs are torch.int64"),
        ({"inputs": [[0.0]]}, "inputs are list"),
        ({"inputs": torch.full((3, 1), float("nan"))}, "NaN or infinity"),
        ({"size": 0}, "at least 1"),
        ({"dim": 0}, "at least 1"),
        ({"permutations": 0}, "at least 1"),
        ({"noise": "shuffled"}, "choose one of fixed, joint, zero"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(arguments, message):
    with pytest.raises(ValueError, match=message):
        check(push_apart, **arguments)


def test_an_error_inside_fn_comes_through():
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        check(nn.Linear(3, 3), dim=2)


@given(seed=seeds)
@few
def test_lipschitz_and_root_functions_are_continuous_and_signs_are_not(seed):
    assert continuity(lambda X: 100 * X.sin(), dim=2, seed=seed).continuous
    assert continuity(lambda X: X.abs().sqrt(), dim=2, seed=seed).continuous
    assert continuity(torch.ones_like, dim=2, seed=seed).continuous
    assert not continuity(torch.sign, dim=2, seed=seed).continuous


def test_a_discontinuity_comes_with_the_two_inputs_that_show_it():
    report = continuity(torch.sign)
    assert equivariance.nearness.multiset_distance(report.X[None], report.Y[None]) < 1e-6
    assert equivariance.nearness.multiset_distance(report.X.sign()[None], report.Y.sign()[None]) == report.jump
    assert report.jump >= 1
    assert "multiset-discontinuous" in repr(report)


def test_distances_to_the_input_fall_along_every_line():
    report = continuity(push_apart)
    assert report.inputs.shape == report.outputs.shape
    assert (report.inputs[:, 1:] < report.inputs[:, :-1]).all()


def test_continuity_in_float32():
    assert continuity(nn.Linear(1, 3)).continuous
    assert not continuity(torch.sign, torch.zeros(4, 1)).continuous


def test_a_permutation_may_be_chosen_and_its_p2_is_found():
    twins = torch.tensor([[0.0], [5.0], [0.0]])
    p1 = torch.tensor([[2, 0, 1]])
    witness = check(push_apart, twins, permutations=p1).witness
    assert witness is not None
    assert witness.p1.tolist() == [2, 0, 1]
    assert witness.p2.tolist() == [0, 2, 1]
    assert check(push_apart, twins, permutations=torch.tensor([[0, 1, 2]])).witness is None


@pytest.mark.parametrize("wrong", [torch.tensor([0, 1, 2]), torch.tensor([[0, 1]]), torch.tensor([[0, 0, 2]])])
def test_what_is_no_permutation_is_refused(wrong):
    with pytest.raises(ValueError, match="each row an order of 0 to 2"):
        check(push_apart, torch.zeros(3, 1), permutations=wrong)
