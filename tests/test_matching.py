"""Matching is optimal, the losses differentiate through the matched pairs alone, and bad input says so."""

import itertools
import multiprocessing
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy.optimize import linear_sum_assignment
from torch import Tensor
from torch.autograd import gradcheck

from setpred import matching
from setpred.costs import COSTS, pairwise_blocks
from setpred.kernels import slices
from setpred.matching import assign, chamfer_loss, hungarian_loss

sizes = st.integers(1, 5)
numbers = st.floats(-4, 4, width=32)
coarse = st.integers(-2, 2).map(float)


def of_shape(*shape: int, elements: st.SearchStrategy = numbers | coarse) -> st.SearchStrategy[Tensor]:
    return arrays.arrays(np.float64, shape, elements=elements).map(torch.from_numpy)


def total(cost: Tensor, match: matching.Assignment) -> Tensor:
    example = torch.arange(len(cost))[:, None]
    return (cost[example, match.prediction, match.target] * match.mask).sum(1)


def brute_force(cost: Tensor) -> float:
    cost = cost if cost.shape[0] <= cost.shape[1] else cost.T
    ways = itertools.permutations(range(cost.shape[1]), cost.shape[0])
    return min(sum(cost[i, j].item() for i, j in enumerate(way)) for way in ways)


def one_to_one(match: matching.Assignment) -> bool:
    for side in (match.prediction, match.target):
        for row, mask in zip(side, match.mask, strict=True):
            if len(set(row[mask].tolist())) != mask.sum():
                return False
    return True


@given(st.data(), sizes, sizes)
def test_no_permutation_is_cheaper(data, n, m):
    cost = data.draw(of_shape(3, n, m))
    match = assign(cost)
    assert one_to_one(match)
    assert match.mask.all()
    assert match.mask.shape == (3, min(n, m))
    assert torch.allclose(total(cost, match), torch.tensor([brute_force(c) for c in cost]).double())


@given(st.data(), sizes, sizes)
def test_masked_elements_take_no_part(data, n, m):
    cost = data.draw(of_shape(1, n, m))
    rows = torch.tensor([data.draw(st.lists(st.booleans(), min_size=n, max_size=n))])
    columns = torch.tensor([data.draw(st.lists(st.booleans(), min_size=m, max_size=m))])
    valid = rows[:, :, None] & columns[:, None, :]
    match = assign(cost.where(valid, torch.nan), target_mask=columns, prediction_mask=rows)
    assert one_to_one(match)
    assert match.mask.sum() == min(rows.sum(), columns.sum())
    assert rows[0, match.prediction[match.mask]].all()
    assert columns[0, match.target[match.mask]].all()
    if match.mask.any():
        expected = brute_force(cost[0, rows[0]][:, columns[0]])
        assert total(cost, match).item() == pytest.approx(expected)


@pytest.mark.parametrize(("n", "m"), [(1, 1), (64, 64), (40, 90), (90, 40), (1, 300), (200, 200)])
@pytest.mark.parametrize("kind", ["uniform", "ties", "constant", "two scales", "same points"])
def test_as_cheap_as_scipy(n, m, kind):
    generator = torch.Generator().manual_seed(n + m)
    cost = torch.rand(4, n, m, generator=generator, dtype=torch.float64)
    if kind == "ties":
        cost = (4 * cost).floor()
    elif kind == "constant":
        cost = torch.ones_like(cost)
    elif kind == "two scales":
        cost = 1e-6 * cost + 1e3 * (torch.rand(cost.shape, generator=generator) < 0.5)
    elif kind == "same points":
        points = torch.randn(4, max(n, m), 2, generator=generator, dtype=torch.float64)
        cost = torch.cdist(points[:, :n], points[:, -m:])
    match = assign(cost)
    assert one_to_one(match)
    scipy = torch.tensor([c[linear_sum_assignment(c)].sum() for c in cost.numpy()])
    assert torch.allclose(total(cost, match), scipy, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64])
def test_every_real_dtype_is_matched(dtype):
    cost = torch.tensor([[[9, 1, 5], [2, 8, 7], [3, 4, 1]]], dtype=dtype)
    assert assign(cost).target.tolist() == [[1, 0, 2]]
    assert assign(cost.mT).target.tolist() == [[1, 0, 2]]


def test_pairs_come_in_the_order_of_the_predictions():
    cost = torch.rand(5, 9, 4)
    prediction = assign(cost).prediction
    assert (prediction.diff(dim=1) > 0).all()


@pytest.mark.parametrize("shape", [(0, 3, 3), (2, 0, 3), (2, 3, 0), (0, 0, 0)])
def test_nothing_to_match_gives_no_pairs(shape):
    match = assign(torch.zeros(shape))
    assert match.mask.shape == (shape[0], min(shape[1:]))
    assert match.prediction.shape == match.target.shape == match.mask.shape


def _assign_in_child(cost, queue):
    queue.put(assign(cost).target.tolist())


@pytest.mark.usefixtures("three_threads")
def test_threads_and_forks_agree_with_one_thread(monkeypatch):
    monkeypatch.setattr(slices, "WORTH_SHARING", 1)
    cost = torch.rand(16, 12, 12)
    threaded_result = assign(cost).target.tolist()
    with ThreadPoolExecutor(4) as pool:
        concurrent = list(pool.map(lambda _: assign(cost).target.tolist(), range(8)))
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=_assign_in_child, args=(cost, queue))
    child.start()
    child.join(timeout=30)
    assert child.exitcode == 0
    monkeypatch.setattr(slices, "WORTH_SHARING", 10**9)
    alone = assign(cost).target.tolist()
    assert all(result == alone for result in [threaded_result, queue.get(), *concurrent])


def textbook(name: str, x: Tensor, y: Tensor) -> Tensor:
    """All pairs of one example from the definitions, one number at a time."""
    values = torch.empty(len(x), len(y), dtype=x.dtype)
    for i, j in itertools.product(range(len(x)), range(len(y))):
        gap = (x[i] - y[j]).abs()
        values[i, j] = {
            "huber": lambda gap=gap: torch.where(gap < 1, gap**2 / 2, gap - 0.5).mean(),
            "squared": lambda gap=gap: (gap**2).mean(),
            "euclidean": lambda gap=gap: (gap**2).sum().sqrt(),
            "cross_entropy": lambda i=i, j=j: -(y[j] * (x[i] - x[i].exp().sum().log())).sum(),
        }[name]()
    return values


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", COSTS)
@pytest.mark.parametrize(("n", "m"), [(4, 4), (3, 5), (5, 2)])
def test_the_loss_is_the_least_mean_of_the_textbook_cost(name, dtype, n, m):
    prediction = 2 * torch.randn(6, n, 3, dtype=dtype)
    target = torch.randn(6, m, 3, dtype=dtype)
    if name == "cross_entropy":
        target = target.softmax(-1)
    pairs = [textbook(name, x, y) for x, y in zip(prediction, target, strict=True)]
    hungarian = torch.tensor([brute_force(c) for c in pairs], dtype=dtype) / min(n, m)
    chamfer = torch.stack([c.min(1).values.mean() + c.min(0).values.mean() for c in pairs])
    assert torch.allclose(hungarian_loss(prediction, target, name), hungarian, rtol=1e-4)
    assert torch.allclose(chamfer_loss(prediction, target, name), chamfer, rtol=1e-4)
    # A function of one's own takes another road to the same number.
    own = lambda x, y: COSTS[name](x, y)  # noqa: E731
    assert torch.allclose(hungarian_loss(prediction, target, own), hungarian, rtol=1e-4)


def test_blocks_of_any_size_give_the_same_costs():
    x, y = torch.randn(5, 7, 3), torch.randn(5, 4, 3)
    whole = pairwise_blocks(x, y, COSTS["huber"], block=10**6)
    for block in (1, 30, 100):
        assert torch.equal(pairwise_blocks(x, y, COSTS["huber"], block=block), whole)


@pytest.mark.parametrize("loss", [hungarian_loss, chamfer_loss])
@pytest.mark.parametrize("name", [*COSTS, lambda x, y: (x - y).pow(4).sum(-1)])
def test_gradients(loss, name):
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(3, 4, 2, dtype=torch.float64, generator=generator) for _ in range(2))
    if name == "cross_entropy":
        y = y.softmax(-1)
    mask = torch.tensor([[1, 1, 1, 1], [1, 0, 1, 0], [0, 0, 0, 0]]).bool()
    inputs = (x.requires_grad_(), y.requires_grad_())
    for masks in ({"mask": mask, "prediction_mask": mask}, {"target_mask": mask}, {"prediction_mask": mask}):
        assert gradcheck(partial(loss, cost=name, **masks), inputs)


@pytest.mark.parametrize("loss", [hungarian_loss, chamfer_loss])
@pytest.mark.parametrize("name", COSTS)
def test_equal_sets_have_a_finite_gradient(loss, name):
    x = torch.eye(3)[None].requires_grad_()
    loss(x, x.detach().flip(1), name).sum().backward()
    assert x.grad.isfinite().all()
    if name != "cross_entropy":
        assert (x.grad == 0).all()


@pytest.mark.parametrize("loss", [hungarian_loss, chamfer_loss])
def test_padding_neither_counts_nor_leaks(loss):
    x = torch.randn(2, 3, 2, requires_grad=True)
    y = torch.randn(2, 4, 2)
    mask = torch.tensor([[True, False, True, False], [False] * 4])
    padded = loss(x, y.masked_fill(~mask[..., None], torch.nan), target_mask=mask)
    padded.sum().backward()
    assert torch.allclose(padded[0], loss(x[:1], y[:1, ::2])[0])
    assert padded[1] == 0
    assert x.grad.isfinite().all()
    assert (x.grad[1] == 0).all()


@pytest.mark.parametrize("loss", [hungarian_loss, chamfer_loss])
def test_diverged_predictions_can_be_masked_out(loss):
    x = torch.randn(1, 3, 2).index_fill(1, torch.tensor([1]), torch.nan).requires_grad_()
    y = torch.randn(1, 2, 2)
    value = loss(x, y, prediction_mask=torch.tensor([[True, False, True]]))
    value.sum().backward()
    assert torch.allclose(value, loss(x[:, ::2], y))
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("loss", [hungarian_loss, chamfer_loss])
@pytest.mark.parametrize(("batch", "n", "m"), [(0, 3, 3), (2, 0, 3), (2, 3, 0), (2, 0, 0)])
def test_empty_sets_cost_nothing(loss, batch, n, m):
    x = torch.randn(batch, n, 2, requires_grad=True)
    value = loss(x, torch.randn(batch, m, 2))
    value.sum().backward()
    assert value.tolist() == [0] * batch
    assert (x.grad == 0).all()


@given(st.data(), sizes)
def test_the_euclidean_hungarian_loss_is_a_metric(data, n):
    x, y, w = (data.draw(of_shape(1, n, 2)) for _ in range(3))
    d = lambda a, b: hungarian_loss(a, b, "euclidean").item()  # noqa: E731
    assert d(x, y) == pytest.approx(d(y, x), abs=1e-12)
    assert d(x, w) <= d(x, y) + d(y, w) + 1e-12
    assert (d(x, y) == 0) == (sorted(x[0].tolist()) == sorted(y[0].tolist()))


@given(st.data(), sizes)
def test_order_never_matters(data, n):
    x, y = (data.draw(of_shape(1, n, 2)) for _ in range(2))
    order = torch.tensor(data.draw(st.permutations(range(n))))
    for loss in (hungarian_loss, chamfer_loss):
        assert torch.allclose(loss(x[:, order], y), loss(x, y), atol=1e-12)
        assert torch.allclose(loss(x, y[:, order]), loss(x, y), atol=1e-12)


@pytest.mark.parametrize("name", ["squared", "huber"])
def test_squared_and_huber_break_the_triangle_inequality(name):
    a, b, c = (torch.full((1, 1, 1), value) for value in (0.0, 0.5, 1.0))
    assert hungarian_loss(a, c, name) > hungarian_loss(a, b, name) + hungarian_loss(b, c, name)


@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_matches_stay_inside_the_class(scale):
    classes = torch.randint(3, (8, 12))
    x, y = scale * torch.randn(8, 12, 2, dtype=torch.float64), scale * torch.randn(8, 12, 2, dtype=torch.float64)
    shuffled = torch.stack([torch.randperm(12) for _ in range(8)])
    y_classes = classes.gather(1, shuffled)
    value = hungarian_loss(x, y, "squared", same_class=(classes, y_classes))
    for b in range(8):
        within = [
            hungarian_loss(x[b, classes[b] == c][None], y[b, y_classes[b] == c][None], "squared")
            * (classes[b] == c).sum()
            for c in classes[b].unique()
        ]
        assert value[b].item() == pytest.approx(sum(within).item() / 12)


def test_classes_stay_apart_at_the_largest_costs():
    classes = torch.tensor([[0, 1]])
    x, y = torch.tensor([[[0.0], [9e14]]]), torch.tensor([[[9e14], [0.0]]])
    assert hungarian_loss(x, y, "squared", same_class=classes).item() == pytest.approx(8.1e29)


def test_one_tensor_of_classes_serves_both_sets():
    classes = torch.tensor([[0, 0, 1]])
    x, y = torch.randn(1, 3, 2), torch.randn(1, 3, 2)
    one = hungarian_loss(x, y, same_class=classes)
    assert torch.equal(one, hungarian_loss(x, y, same_class=(classes, classes)))


def test_a_forced_pair_across_classes_adds_its_plain_cost():
    x, y = torch.zeros(1, 1, 1), torch.ones(1, 1, 1)
    value = hungarian_loss(x, y, "squared", same_class=(torch.tensor([[0]]), torch.tensor([[1]])))
    assert value.item() == 1


def test_mixed_precision_is_computed_in_the_wider_dtype():
    x, y = torch.randn(2, 3, 2), torch.randn(2, 3, 2)
    assert hungarian_loss(x.half(), y.half()).dtype == torch.float32
    assert hungarian_loss(x.bfloat16(), y).dtype == torch.float32
    assert hungarian_loss(x, y.double()).dtype == torch.float64
    one_hot = torch.nn.functional.one_hot(torch.tensor([[0, 1, 1]] * 2))
    assert torch.equal(hungarian_loss(x, one_hot, "squared"), hungarian_loss(x, one_hot.float(), "squared"))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = hungarian_loss(x, one_hot, "cross_entropy")
    assert torch.allclose(inside, hungarian_loss(x, one_hot, "cross_entropy"))


def test_the_loss_can_be_compiled():
    x, y = torch.randn(2, 3, 2), torch.randn(2, 3, 2)
    compiled = torch.compile(hungarian_loss, backend="eager")
    assert torch.allclose(compiled(x, y), hungarian_loss(x, y))


def test_nan_in_a_prediction_names_the_example_and_the_cause():
    x, y = torch.zeros(5, 3, 2), torch.zeros(5, 3, 2)
    x[3, 1, 0] = torch.nan
    for loss in (hungarian_loss, chamfer_loss):
        with pytest.raises(ValueError, match=r"prediction of example 3 holds NaN.*diverged.*lower its step or clip"):
            loss(x, y)


def test_infinity_in_a_target_names_the_example_and_the_cause():
    x, y = torch.zeros(5, 3, 2), torch.zeros(5, 3, 2)
    y[4, 2, 1] = torch.inf
    for name in ("huber", "squared", "euclidean"):
        with pytest.raises(ValueError, match=r"target of example 4 .*\(element 2\).*mask"):
            hungarian_loss(x, y, name)


def test_costs_that_overflow_name_the_example():
    x, y = torch.zeros(2, 1, 1), torch.full((2, 1, 1), 1e30)
    with pytest.raises(ValueError, match=r"cost of example 0 is inf .*overflow"):
        hungarian_loss(x, y, "squared")
    for bad, dtype in itertools.product((torch.nan, torch.inf, -torch.inf), (torch.half, torch.float, torch.double)):
        cost = torch.zeros(3, 2, 2, dtype=dtype)
        cost[2, 1, 0] = bad
        with pytest.raises(ValueError, match=r"cost of example 2 .*\(prediction 1, target 0\)"):
            assign(cost)


SETS = torch.zeros(2, 3, 4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: assign(torch.zeros(3, 3)), r"cost has shape \[3, 3\]"),
        (lambda: assign(SETS.numpy()), "cost is ndarray: pass a tensor"),
        (lambda: assign(SETS, target_mask=[[True] * 4] * 2), "mask is list: pass a tensor"),
        (lambda: hungarian_loss(SETS, SETS.tolist()), "target is list: pass a tensor"),
        (lambda: hungarian_loss(SETS, SETS, same_class=[[0, 1, 2]] * 2), "same_class of the predictions is list"),
        (lambda: assign(SETS.to(torch.complex64)), "complex64: expected real"),
        (lambda: assign(SETS, target_mask=torch.ones(2, 3).bool()), r"mask is \[2, 3\] torch.bool: pass \[2, 4\]"),
        (lambda: assign(SETS, prediction_mask=torch.ones(2, 3)), r"prediction_mask is \[2, 3\] torch.float32: pass"),
        (lambda: assign(SETS, target_mask=torch.ones(2, 4, device="meta").bool()), "mask is on meta, the sets on cpu"),
        (lambda: hungarian_loss(SETS[0], SETS), r"prediction has shape \[3, 4\]"),
        (lambda: hungarian_loss(SETS, SETS[:1]), "prediction holds 2 sets, target 1"),
        (lambda: hungarian_loss(SETS, SETS[..., :2]), "prediction have 4 dimensions, of the target 2"),
        (lambda: hungarian_loss(SETS[..., :0], SETS[..., :0]), "at least one dimension"),
        (lambda: hungarian_loss(SETS, SETS.to("meta")), "prediction is on cpu, target on meta"),
        (lambda: hungarian_loss(SETS, SETS * 1j), "target is torch.complex64"),
        (lambda: hungarian_loss(SETS, SETS, "hubber"), "cost is 'hubber': choose one of huber, squared"),
        (lambda: hungarian_loss(SETS, SETS, lambda x, y: x - y), r"cost returned shape \[2, 3, 3, 4\]"),
        (lambda: hungarian_loss(SETS, SETS, same_class=torch.zeros(2, 4)), "same_class of the predictions"),
        (lambda: hungarian_loss(SETS, SETS, same_class=torch.zeros(2, 3, device="meta")), "same_class is on meta"),
        (lambda: chamfer_loss(SETS, SETS, mask=torch.ones(2, 4).bool()), r"mask is \[2, 4\] .*: pass \[2, 3\]"),
    ],
)
def test_wrong_input_gets_one_line(call, message):
    with pytest.raises(ValueError, match=message) as error:
        call()
    assert "\n" not in str(error.value)


def test_pairs_across_classes_are_matched_as_well_as_others():
    prediction, target = torch.rand(3, 200, 2), torch.rand(3, 200, 2)
    classes = torch.zeros(3, 200, dtype=torch.long), torch.ones(3, 200, dtype=torch.long)
    free = hungarian_loss(prediction, target, "squared")
    torch.testing.assert_close(hungarian_loss(prediction, target, "squared", same_class=classes), free)
