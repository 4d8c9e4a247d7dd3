"""Average precision: hand-computed cases, a slow version in plain Python, and what must not matter."""

import json
import math
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from hypothesis import given
from hypothesis import strategies as st
from torchmetrics import MetricCollection

from setpred.data.clevr import CLEVR_SCHEMA
from setpred.metrics.average_precision import THRESHOLDS, Objects, SetAveragePrecision
from setpred.schema import Category, Real, Schema

INF = math.inf


def objects(*images: list[tuple[int, float, float]]) -> Objects:
    """Images as lists of (attribute, position on a line, confidence), all of the same length."""
    rows = torch.tensor(images, dtype=torch.float32).view(len(images), -1, 3)
    return Objects(rows[..., :1].long(), rows[..., 1:2], rows[..., 2])


def scores(prediction, target, thresholds=(INF, 0.5), target_mask=None, **kwargs) -> dict[str, float]:
    metric = SetAveragePrecision(thresholds=thresholds)
    metric.update(prediction, target, target_mask, **kwargs)
    return {name: value.item() for name, value in metric.compute().items()}


def brute_force(prediction: Objects, target: Objects, threshold: float, pooled: bool) -> float:
    """Both rules, read off their description one prediction and one object at a time."""
    attributes, position, confidence = (part.tolist() for part in prediction)
    wanted = [
        [(a, p) for a, p, c in zip(*image, strict=True) if c > 0.5]
        for image in zip(*(part.tolist() for part in target), strict=True)
    ]
    detections = [(confidence[b][i], b, i) for b in range(len(wanted)) for i in range(len(confidence[b]))]
    judged, claimed = [], set()
    for c, b, i in sorted(detections, key=lambda d: (-d[0], d[1], d[2])):
        options = [
            (math.dist(position[b][i], p), (b, j) in claimed, j)
            for j, (a, p) in enumerate(wanted[b])
            if a == attributes[b][i] and (pooled or (b, j) not in claimed)
        ]
        distance, taken, j = min(options, default=(INF, True, -1))
        good = j >= 0 and not taken and distance <= threshold
        if j >= 0 and (good or not pooled):
            claimed.add((b, j))
        judged.append((c, b, good))

    def area(some: list[tuple[float, bool]], total: int) -> float:
        points = []
        for c in sorted({c for c, _ in some}, reverse=True):
            above = [good for other, good in some if other >= c]
            points.append((sum(above) / total, sum(above) / len(above)))
        best = [max(p for r, p in points if r >= recall) for recall, _ in points]
        before = [0.0, *(recall for recall, _ in points)]
        return sum((r - r0) * p for (r, _), r0, p in zip(points, before, best, strict=False))

    if pooled:
        total = sum(map(len, wanted))
        return area([(c, good) for c, _, good in judged], total) if total else math.nan
    images = [
        area([(c, good) for c, of, good in judged if of == b], len(wanted[b])) for b in range(len(wanted)) if wanted[b]
    ]
    return sum(images) / len(images) if images else math.nan


@st.composite
def pairs(draw) -> tuple[Objects, Objects]:
    """Few attributes, places and confidences, so that ties of every kind are the rule."""
    batch, n, m = draw(st.integers(1, 3)), draw(st.integers(0, 4)), draw(st.integers(0, 4))

    def image(size: int, confidence: st.SearchStrategy[float]) -> st.SearchStrategy[list]:
        row = st.tuples(st.integers(0, 1), st.sampled_from([0.0, 0.25, 0.5, 1.0, 3.0]), confidence)
        return st.lists(row, min_size=size, max_size=size)

    def some(size: int, confidence: st.SearchStrategy[float]) -> Objects:
        return objects(*draw(st.lists(image(size, confidence), min_size=batch, max_size=batch)))

    return some(n, st.sampled_from([0.25, 0.5, 0.75])), some(m, st.sampled_from([0.0, 1.0]))


@given(pairs())
def test_equals_the_slow_version(pair):
    thresholds = (INF, 1.0, 0.5, 0.25, 0.0)
    found = scores(*pair, thresholds)
    for threshold in thresholds:
        for name, pooled in (("ap", True), ("image_ap", False)):
            expected = brute_force(*pair, threshold, pooled)
            assert found[f"{name}_{threshold:g}"] == pytest.approx(expected, abs=1e-6, nan_ok=True)


def test_by_hand_a_false_alarm_between_two_hits():
    target = objects([(0, 0.0, 1), (1, 1.0, 1)])
    prediction = objects([(0, 0.0, 0.9), (0, 2.0, 0.8), (1, 1.0, 0.7)])
    # Precision 1 up to half of the objects, 2/3 from there on.
    assert scores(prediction, target)["ap_0.5"] == pytest.approx((1 + 2 / 3) / 2)


def test_by_hand_one_ranking_for_all_images_or_one_for_each():
    target = objects([(0, 0.0, 1)], [(0, 0.0, 1)])
    prediction = objects([(0, 0.0, 0.2), (1, 0.0, 0.1)], [(1, 0.0, 0.9), (0, 0.0, 0.8)])
    # Together: wrong, right, right, wrong. By image: right, wrong and wrong, right.
    found = scores(prediction, target)
    assert found["ap_inf"] == pytest.approx(2 / 3)
    assert found["image_ap_inf"] == pytest.approx((1 + 1 / 2) / 2)


def test_by_hand_the_rules_differ_in_what_a_distant_prediction_takes():
    target = objects([(0, 0.0, 1), (0, 4.0, 1)])
    far_first = objects([(0, 1.0, 0.9), (0, 0.0, 0.8)])
    found = scores(far_first, target)
    assert found["ap_0.5"] == pytest.approx(1 / 4)  # the object stays free for the second
    assert found["image_ap_0.5"] == 0  # it does not, and the second takes the distant object
    both_nearest = objects([(0, 0.0, 0.9), (0, 0.25, 0.8)])
    assert scores(both_nearest, target)["ap_inf"] == pytest.approx(1 / 2)  # the nearest of the second is taken
    assert scores(both_nearest, target)["image_ap_inf"] == 1


def test_more_and_fewer_predictions_than_objects():
    one, two = objects([(0, 0.0, 1)]), objects([(0, 0.0, 1), (1, 1.0, 1)])
    assert scores(one, two)["ap_0.5"] == scores(one, two)["image_ap_0.5"] == 0.5
    assert scores(objects([(0, 0.0, 0.9), (1, 1.0, 0.1)]), one)["ap_0.5"] == 1  # the false alarm comes last
    assert scores(objects([]), two)["ap_0.5"] == 0


def test_equal_objects_are_found_as_often_as_they_are_there():
    twice = objects([(0, 0.0, 1), (0, 0.0, 1)])
    assert scores(twice, twice)["ap_0.5"] == scores(twice, twice)["image_ap_0.5"] == 1
    thrice = objects([(0, 0.0, 0.9), (0, 0.0, 0.8), (0, 0.0, 0.7)])
    assert scores(thrice, objects([(0, 0.0, 1), (0, 0.0, 1)]))["ap_0.5"] == 1
    assert scores(twice, objects([(0, 0.0, 1), (0, 0.0, 0)]))["ap_0.5"] == 0.5  # equally sure of right and wrong


@pytest.mark.filterwarnings("ignore:The ``compute`` method")
def test_an_image_without_objects_only_costs_false_alarms():
    prediction = objects([(0, 0.0, 0.5)], [(0, 0.0, 0.9)])
    found = scores(prediction, objects([(0, 0.0, 1)], [(0, 0.0, 0)]))
    assert found["ap_inf"] == 0.5
    assert found["image_ap_inf"] == 1
    assert all(math.isnan(v) for v in scores(prediction, objects([(0, 0.0, 0)], [(0, 0.0, 0)])).values())
    assert all(math.isnan(v.item()) for v in SetAveragePrecision().compute().values())


def test_what_a_mask_leaves_out_might_as_well_not_be_there():
    target, prediction = objects([(0, 0.0, 1), (1, 0.0, 1)]), objects([(1, 0.0, 0.9), (0, 0.0, 0.8)])
    first, second = torch.tensor([[True, False]]), torch.tensor([[False, True]])
    assert scores(prediction, target, target_mask=first)["ap_inf"] == 0.5
    assert scores(prediction, target, target_mask=first, prediction_mask=second)["ap_inf"] == 1
    assert scores(prediction, target, target_mask=first, prediction_mask=first)["image_ap_inf"] == 0


@pytest.mark.parametrize("bad", [math.nan, INF, -INF])
def test_a_diverged_prediction_is_wrong_and_harms_no_other(bad):
    sets = CLEVR_SCHEMA.encode_batch([[OBJECT], [OBJECT]])[0]
    for channel in range(CLEVR_SCHEMA.dim):
        prediction = sets.clone()
        prediction[1, :, channel] = bad
        metric = SetAveragePrecision(CLEVR_SCHEMA)
        metric.update(prediction, sets)
        assert metric.compute()["image_ap_inf"] == 0.5
        assert metric.compute()["ap_inf"] <= 0.5


OBJECT = {"3d_coords": [1.5, -3.0, 0.7], "material": "metal", "color": "red", "shape": "cube", "size": "small"}


@pytest.mark.filterwarnings("ignore:The ``compute`` method")
def test_a_schema_reads_attributes_units_and_presence():
    target, _ = CLEVR_SCHEMA.encode_batch([[OBJECT, {**OBJECT, "color": "blue"}]])
    metric = SetAveragePrecision(CLEVR_SCHEMA)
    assert list(metric.compute())[:6] == ["ap_inf", "ap_1", "ap_0.5", "ap_0.25", "ap_0.125", "ap_0.0625"]
    prediction = target.clone()
    prediction[..., 0] += 0.2 / 3  # the coordinates of an element are thirds of a unit
    metric.update(prediction, target)
    assert [metric.compute()[f"ap_{t:g}"].item() for t in THRESHOLDS] == [1, 1, 1, 1, 0, 0]
    prediction[:, 0, CLEVR_SCHEMA.slices["shape"]] = torch.tensor([0.0, 1.0, 0.9])
    assert metric(prediction, target)["ap_inf"] == pytest.approx(1 / 4)


def random_scenes(images: int) -> tuple[Objects, Objects]:
    def some(confidence: torch.Tensor) -> Objects:
        position = 6 * torch.rand(images, 10, 3) - 3
        return Objects(torch.randint(2, (images, 10, 4)), position, confidence)

    target = some((torch.rand(images, 10) > 0.3).float())
    near = target.position + 0.2 * torch.randn(images, 10, 3)
    wrong = torch.rand(images, 10, 1) < 0.2
    attributes = torch.where(wrong, torch.randint(2, (images, 10, 4)), target.attributes)
    return Objects(attributes, near, (target.confidence + 0.4 * torch.randn(images, 10)).round(decimals=1)), target


def part(sets: Objects, which) -> Objects:
    return Objects(*(tensor[which] for tensor in sets))


@pytest.mark.filterwarnings("ignore:The ``compute`` method")
def test_neither_batches_nor_the_order_of_images_matter():
    prediction, target = random_scenes(40)
    metric = SetAveragePrecision()
    for chosen in torch.randperm(40).split(7):
        metric(part(prediction, chosen), part(target, chosen))
    metric.update(part(prediction, slice(0)), part(target, slice(0)))
    whole = scores(prediction, target, THRESHOLDS)
    assert {name: value.item() for name, value in metric.compute().items()} == pytest.approx(whole)
    assert 0.05 < whole["ap_0.25"] < whole["ap_0.5"] < whole["ap_inf"] < 0.95
    metric.reset()
    assert math.isnan(metric.compute()["ap_inf"])


SHARES = ([slice(0, 13), slice(13, 20)], [slice(0, 0), slice(0, 20)])


def _one_process(rank: int, folder: Path) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    results = []
    for shares in SHARES:
        torch.manual_seed(0)
        prediction, target = random_scenes(20)
        metric = SetAveragePrecision()
        for k in range(20)[shares[rank]]:
            metric.update(part(prediction, slice(k, k + 1)), part(target, slice(k, k + 1)))
        results.append({name: value.item() for name, value in metric.compute().items()})
    (folder / f"{rank}.json").write_text(json.dumps(results))
    dist.destroy_process_group()


@pytest.mark.filterwarnings("ignore:The ``compute`` method")
def test_processes_with_unequal_shares_agree_with_one(tmp_path):
    alone = scores(*random_scenes(20), THRESHOLDS)
    mp.start_processes(_one_process, (tmp_path,), nprocs=2, start_method="fork")
    for rank in range(2):
        for together in json.loads((tmp_path / f"{rank}.json").read_text()):
            assert together == pytest.approx(alone)


def test_ten_thousand_images_take_seconds():
    prediction, target = random_scenes(10_000)
    metric = SetAveragePrecision()
    started = time.process_time()
    for chosen in torch.arange(10_000).split(512):
        metric.update(part(prediction, chosen), part(target, chosen))
    metric.compute()
    assert time.process_time() - started < 10


SETS = objects([(0, 0.0, 1), (0, 0.0, 1)])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((torch.zeros(1, 2, 19), SETS), "build the metric with their schema, or pass Objects"),
        ((SETS, objects([(0, 0.0, 1)], [(0, 0.0, 1)])), "make batch and last equal"),
        ((SETS, SETS._replace(position=torch.zeros(1, 2, 3))), "make batch and last equal"),
        ((SETS, SETS._replace(confidence=torch.zeros(1, 3))), r"target has confidence \[1, 3\]: expected \[1, 2\]"),
        ((SETS, SETS._replace(position=torch.zeros(2, 1))), r"expected \[batch, n, a\] and \[batch, n, k\]"),
        ((SETS, SETS, torch.ones(1, 2)), r"target_mask is \[1, 2\] torch.float32: pass \[1, 2\] torch.bool"),
    ],
)
def test_wrong_input_gets_one_line(arguments, message):
    with pytest.raises(ValueError, match=message) as error:
        SetAveragePrecision().update(*arguments)
    assert "\n" not in str(error.value)


def test_wrong_settings_get_one_line():
    with pytest.raises(ValueError, match="at least one distance, none negative"):
        SetAveragePrecision(thresholds=())
    with pytest.raises(ValueError, match="none negative"):
        SetAveragePrecision(thresholds=(1.0, math.nan))
    with pytest.raises(ValueError, match=r"expected \[batch, size, dim\]"):
        SetAveragePrecision(CLEVR_SCHEMA).update(torch.zeros(10, 19), torch.zeros(10, 19))


def test_metrics_of_other_distances_stay_apart_in_a_collection():
    schema = Schema({"at": Real(1), "kind": Category("a", "b")}, size=2)
    target, mask = schema.encode_batch([[{"at": 0.0, "kind": "a"}, {"at": 5.0, "kind": "b"}]])
    both = MetricCollection({"near": SetAveragePrecision(schema, (0.01,)), "far": SetAveragePrecision(schema, (0.2,))})
    wrong, shifted = target.clone(), target.clone()
    wrong[..., 1:3] = wrong[..., 1:3].flip(-1)
    shifted[..., 0] += 0.1
    for prediction in (wrong, shifted):
        both.update(prediction, target, mask)
    found = both.compute()
    assert found["ap_0.01"] == 0
    assert found["ap_0.2"] > 0
