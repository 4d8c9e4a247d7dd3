"""Proposals: which are kept, which learn from which object, and where in space the places of an image lie."""

import pytest
import torch

from setpred.proposals import best_threshold, fit_plane, least_distance, one_to_many, one_to_one, place_grid, select
from setpred.schema import Category, Real, Schema

SCHEMA = Schema({"at": Real(2), "kind": Category("a", "b")}, size=3)


def proposal(x, y, score):
    return [x, y, 2.0, -2.0, score]


def test_a_repeated_object_is_kept_once():
    raw = torch.tensor([[proposal(0, 0, 3), proposal(0.1, 0, 2.5), proposal(1, 1, 2), proposal(1, 1.05, 1)]])
    sets = select(SCHEMA, raw, apart=0.3)
    assert sets.shape == (1, 3, SCHEMA.dim)
    assert torch.allclose(sets[0, :2, :2], torch.tensor([[0.0, 0.0], [1.0, 1.0]]))
    assert (sets[0, :2, -1] > 0.8).all()
    assert sets[0, 2, -1] < 1e-6


def test_nothing_is_left_out_where_objects_may_meet():
    raw = torch.tensor([[proposal(0, 0, 3), proposal(0, 0, 2.5), proposal(0, 0, 2)]])
    assert (select(SCHEMA, raw, apart=0.0)[0, :, -1] > 0.8).all()


def test_fewer_places_than_elements():
    sets = select(SCHEMA, torch.tensor([[proposal(1, 2, 3)]]))
    assert sets.shape == (1, 3, SCHEMA.dim)
    assert (sets[0, 1:] == 0).all()


def test_every_object_teaches_one_place_and_no_place_two():
    cost, mask = torch.rand(5, 20, 3), torch.rand(5, 3) > 0.3
    example, place, element = one_to_one(cost, mask)
    assert len(example) == mask.sum()
    assert len({*zip(example.tolist(), place.tolist(), strict=True)}) == len(example)
    assert mask[example, element].all()


def test_an_object_teaches_several_places_that_have_no_nearer_object():
    cost, mask = torch.rand(5, 20, 3), torch.ones(5, 3, dtype=torch.bool)
    mask[0, 1:] = False
    example, place, element = one_to_many(cost, mask, nearest=4)
    assert len({*zip(example.tolist(), place.tolist(), strict=True)}) == len(example)
    assert (cost.masked_fill(~mask[:, None], 9).argmin(2)[example, place] == element).all()
    assert mask[example, element].all()
    assert (example == 0).sum() == 4


def test_sets_of_different_sizes_tell_how_near_objects_come():
    positions = torch.tensor([[[0.0], [1.0], [9.0]], [[0.0], [0.001], [5.0]]])
    mask = torch.tensor([[True, True, True], [True, False, True]])
    assert least_distance(positions, mask) == pytest.approx(0.5, rel=0.01)
    assert least_distance(positions, mask & False) == 0.0


def test_the_threshold_gives_most_sets_their_size():
    counts = torch.randint(0, 4, (200,))
    scores = torch.where(torch.arange(3) < counts[:, None], 1.0, -2.0) + 0.3 * torch.randn(200, 3)
    threshold = best_threshold(scores, counts)
    assert ((scores > threshold).sum(1) == counts).float().mean() > 0.97


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_plane_of_places_is_found_without_knowing_which_object_is_where(k):
    generator = torch.Generator().manual_seed(k)
    weight, bias = torch.randn(k, 2, generator=generator), torch.randn(k, generator=generator)
    grid = place_grid(12, 16)
    images, sets = torch.rand(600, 3, 48, 64, generator=generator) * 0.1, torch.zeros(600, 4, k)
    mask = torch.arange(4) < torch.randint(1, 5, (600, 1), generator=generator)
    for i, j in mask.nonzero().tolist():
        row, column = (int(torch.randint(n, (), generator=generator)) for n in (12, 16))
        images[i, :, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4] = 1.0
        sets[i, j] = weight @ grid[:, row, column] + bias
    found, offset = fit_plane(images, sets, mask, 12, 16)
    true, guess = (w @ grid.flatten(1) + b[:, None] for w, b in ((weight, bias), (found, offset)))
    assert (true - guess).norm() < 0.5 * (true - true.mean(1, keepdim=True)).norm()


def test_no_plane_is_imagined_where_images_say_nothing():
    generator = torch.Generator().manual_seed(0)
    images, sets = torch.rand(500, 3, 32, 32, generator=generator), torch.randn(500, 3, 2, generator=generator)
    weight, _ = fit_plane(images, sets, torch.ones(500, 3, dtype=torch.bool), 8, 8)
    assert weight.abs().max() < 1  # of positions with a standard deviation of 1, at places from -1 to 1
