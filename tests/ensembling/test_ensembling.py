"""Mean probabilities of networks and of views, against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from expertload import aucoc_score
from expertload.ensembling import (
    Ensemble,
    ViewEnsemble,
    choose_views,
    make_views,
    view_names,
)
from expertload.exceptions import DataTypeError, LabelError, ParameterError, ShapeError


def make_network(seed=0, classes=3, size=8):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * (size - 2) ** 2, classes)
    ).eval()


@pytest.fixture
def images():
    return torch.randn(12, 1, 8, 8, generator=torch.Generator().manual_seed(1))


def test_an_ensemble_is_the_mean_of_a_loop(images):
    networks = [make_network(seed) for seed in range(3)]
    together = Ensemble(networks)
    expected = sum(network(images).softmax(1) for network in networks) / 3
    torch.testing.assert_close(together(images).softmax(1), expected)
    torch.testing.assert_close(together(images).exp(), expected)
    assert together.passes == 3


def test_passes_of_nested_ensembles_are_counted(images):
    networks = [make_network(seed) for seed in range(3)]
    assert Ensemble(ViewEnsemble(network, "flip") for network in networks).passes == 6
    assert ViewEnsemble(Ensemble(networks), "flip").passes == 6
    labels = np.arange(12) % 3
    shifted = choose_views(
        Ensemble(networks), images, labels, candidates=["shift"], score=lambda _, p: p[0, 0]
    )
    assert shifted.passes == 3 * len(make_views(shifted.views))


def test_maps_of_classes_are_not_averaged_over_views(images):
    network = nn.Conv2d(1, 2, 1)
    assert ViewEnsemble(network, "none")(images).shape == (12, 2, 8, 8)
    with pytest.raises(ShapeError, match=r"one row of logits .*\(12, 2, 8, 8\)"):
        ViewEnsemble(network, "flip")(images)


def test_images_and_labels_of_another_form_are_a_sentence(images):
    network = make_network()
    with pytest.raises(LabelError, match="'labels' must be the number of each image's class"):
        choose_views(network, images, np.arange(12) % 3 + 1)
    with pytest.raises(DataTypeError, match=r"torch\.as_tensor\(images\)"):
        choose_views(network, images.numpy(), np.arange(12) % 3)


def test_tiny_probabilities_are_not_lost():
    logits = torch.tensor([[0.0, -1000.0]])
    assert Ensemble([nn.Identity(), nn.Identity()])(logits)[0, 1] == -1000
    with_a_uniform_one = Ensemble([nn.Identity(), nn.Threshold(0.0, 0.0)])
    assert with_a_uniform_one(logits).exp()[0, 1] == pytest.approx(0.25)


def views_slowly(name, image):
    """The views of one image, (height, width), by numpy."""
    if name == "none":
        return [image]
    if name == "flip":
        return [image, image[:, ::-1]]
    if name == "symmetries":
        turns = [np.rot90(image, k) for k in range(4)]
        return [view for turn in turns for view in (turn, turn[:, ::-1])]
    framed = np.pad(image, 1, mode="edge")
    height, width = image.shape
    return [
        framed[1 - down : 1 - down + height, 1 - across : 1 - across + width]
        for down, across in [(0, 0), (1, 0), (-1, 0), (0, 1), (0, -1)]
    ]


@pytest.mark.parametrize("name", view_names())
def test_views_are_those_of_a_loop(name, images):
    for number, image in enumerate(images[:, 0].numpy()):
        ours = [view(images)[number, 0].numpy() for view in make_views(name)]
        for found, expected in zip(ours, views_slowly(name, image), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_shifts_grow_with_the_image():
    image = torch.zeros(1, 1, 32, 32)
    image[..., 16, 16] = 1
    places = {tuple(torch.nonzero(view(image)[0, 0])[0].tolist()) for view in make_views("shift")}
    assert places == {(16, 16), (18, 16), (14, 16), (16, 18), (16, 14)}


@pytest.mark.parametrize("name", view_names())
def test_the_mean_over_views_is_that_of_a_loop(name, images):
    network = make_network()
    together = ViewEnsemble(network, name)
    each = [network(view(images)).softmax(1) for view in make_views(name)]
    torch.testing.assert_close(together(images).softmax(1), sum(each) / len(each))
    assert together.passes == len(each)


def test_symmetries_make_every_network_symmetric(images):
    together = ViewEnsemble(make_network(), "symmetries")
    expected = together(images)
    for view in make_views("symmetries"):
        torch.testing.assert_close(together(view(images)), expected)


def test_views_of_your_own(images):
    network = make_network()
    negative = ViewEnsemble(network, [lambda x: x, lambda x: -x])
    expected = (network(images).softmax(1) + network(-images).softmax(1)) / 2
    torch.testing.assert_close(negative(images).softmax(1), expected)


class LooksLeft(nn.Module):
    """Knows the class from the left half, though it shows on both."""

    def forward(self, images):
        value = images[:, 0, :, : images.shape[-1] // 2].mean(dim=(1, 2))
        return torch.stack([-value, value], dim=1) * 5


@pytest.fixture
def two_halves():
    generator = torch.Generator().manual_seed(2)
    labels = torch.arange(400) % 2
    noise = torch.randn(400, 1, 4, 4, generator=generator)
    return noise + 0.4 * (2 * labels - 1).view(-1, 1, 1, 1), labels


def test_views_are_chosen_by_the_score_on_validation_data(two_halves):
    images, labels = two_halves
    choice = choose_views(LooksLeft(), images, labels, batch_size=64)
    assert choice.views in ("flip", "symmetries")
    for name, score in choice.scores.items():
        proba = ViewEnsemble(LooksLeft(), name)(images).double().softmax(1).numpy()
        assert score == pytest.approx(aucoc_score(labels.numpy(), proba), abs=1e-6)
    assert choice.scores[choice.views] == max(choice.scores.values())
    assert str(choice).startswith(
        f"views: {choice.views}, {choice.passes} passes for each image; +"
    )


def test_of_equals_the_cheapest_is_taken(two_halves):
    images, labels = two_halves
    choice = choose_views(LooksLeft(), images, labels, score=lambda truth, proba: 1.0)
    assert (choice.views, choice.passes) == ("none", 1)
    assert "none" in str(choice)


def test_none_is_always_among_the_choices_and_symmetries_only_for_squares():
    network = nn.Sequential(nn.Flatten(), nn.Linear(24, 2))
    images, labels = torch.randn(30, 1, 4, 6), torch.arange(30) % 2
    assert set(choose_views(network, images, labels).scores) == {"none", "flip", "shift"}
    only = choose_views(network, images, labels, candidates=["flip"])
    assert set(only.scores) == {"none", "flip"}


def test_choosing_leaves_no_gradients_and_evaluates(two_halves):
    images, labels = two_halves
    network = nn.Sequential(nn.Flatten(), nn.Dropout(0.9), nn.Linear(16, 2)).train()
    first, again = (choose_views(network, images, labels).scores for _ in range(2))
    assert first == again
    assert network[2].weight.grad is None


@pytest.mark.parametrize(
    "call",
    [
        lambda: Ensemble([]),
        lambda: ViewEnsemble(nn.Identity(), []),
        lambda: make_views("rotate"),
        lambda: choose_views(nn.Identity(), torch.zeros(2, 1, 2, 2), [0, 1], candidates=["x"]),
        lambda: choose_views(nn.Identity(), torch.zeros(2, 1, 2, 2), [0, 1], batch_size=0),
    ],
)
def test_what_cannot_be_done_is_said(call):
    with pytest.raises(ParameterError):
        call()


@pytest.mark.parametrize("last", [[], [nn.Flatten(0)]], ids=["(n, 1)", "(n,)"])
def test_single_logits_of_a_binary_task_are_averaged_as_probabilities(images, last):
    networks = [nn.Sequential(make_network(seed, classes=1), *last) for seed in range(3)]
    expected = sum(network(images).sigmoid() for network in networks) / 3
    torch.testing.assert_close(Ensemble(networks)(images).sigmoid(), expected)
    network = networks[0]
    flipped = network(images).sigmoid() / 2 + network(images.flip(-1)).sigmoid() / 2
    torch.testing.assert_close(ViewEnsemble(network, "flip")(images).sigmoid(), flipped)


def test_single_logits_keep_tiny_probabilities():
    twice = Ensemble([nn.Identity(), nn.Identity()])
    assert twice(torch.tensor([[-1000.0]])).tolist() == [[-1000.0]]


@pytest.mark.parametrize("last", [[], [nn.Flatten(0)]], ids=["(n, 1)", "(n,)"])
def test_views_are_chosen_for_a_single_logit(images, last):
    single = nn.Sequential(make_network(classes=1), *last)
    labels = np.arange(12) % 2
    choice = choose_views(single, images, labels)
    with torch.no_grad():
        expected = aucoc_score(labels, single(images).double().sigmoid().numpy().reshape(-1))
    assert choice.scores["none"] == expected


def test_a_network_is_no_list_of_networks():
    with pytest.raises(ParameterError, match=r"list of networks.*Sequential.*Hint.*\[network\]"):
        Ensemble(make_network())
