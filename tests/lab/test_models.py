import sys
import types

import pytest
import torch
from torch import nn

from expertload.exceptions import MissingExtraError, ParameterError
from expertload.lab.models import (
    MODELS,
    PaddedShortcut,
    build_model,
    features_of,
    small_cnn,
    wide_resnet28_10,
)


def parameters(model):
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize(
    ("build", "count"),
    [
        (lambda: build_model("resnet8", num_classes=10), 75_290),
        (lambda: build_model("resnet9", num_classes=100), 944_380),
        (lambda: build_model("resnet14", num_classes=10), 172_506),
        (lambda: build_model("resnet20", num_classes=10), 269_722),
        (lambda: build_model("resnet18", num_classes=10), 11_173_962),
        (lambda: build_model("resnet34", num_classes=10), 21_282_122),
        (lambda: build_model("resnet50", num_classes=10), 23_520_842),
        (lambda: wide_resnet28_10(100), 36_536_884),
        # With the stem for ImageNet, the counts of its published models.
        (lambda: build_model("resnet18", num_classes=1000, stem="large"), 11_689_512),
        (lambda: build_model("resnet34", num_classes=1000, stem="large"), 21_797_672),
        (lambda: build_model("resnet50", num_classes=1000, stem="large"), 25_557_032),
    ],
)
def test_parameter_counts_are_the_known_ones(build, count):
    with torch.device("meta"):  # counts need no memory
        assert parameters(build()) == count


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("side", "channels"), [(28, 1), (32, 3)])
def test_logits_features_and_gradients(name, side, channels):
    small = {"depth": 10, "widen": 1} if name.startswith("wide") else {}
    model = build_model(name, num_classes=7, in_channels=channels, **small)
    images = torch.randn(2, channels, side, side)
    logits = model(images)
    assert logits.shape == (2, 7)
    logits.sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    model.eval()
    features = features_of(model, images)
    assert torch.allclose(model.head(features), model(images), atol=1e-5)


@pytest.mark.parametrize(("stem", "side"), [("small", 32), ("medium", 64), ("large", 128)])
def test_every_stem_hands_32_pixels_on(stem, side):
    model = build_model("resnet18", num_classes=2, stem=stem)
    seen = []
    first_block = next(m for m in model.body if type(m).__name__ == "BasicBlock")
    first_block.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].shape[-1]))
    model(torch.zeros(1, 3, side, side))
    assert seen == [32]


def test_the_small_network_takes_the_digits():
    assert small_cnn(10, in_channels=1)(torch.zeros(2, 1, 8, 8)).shape == (2, 10)


def test_resnet9_begins_with_small_logits():
    """A rate of 0.2 would not be stable otherwise."""
    torch.manual_seed(0)
    assert build_model("resnet9", num_classes=100)(torch.randn(32, 3, 32, 32)).std() < 0.5


def test_the_shortcut_without_parameters():
    x = torch.arange(32.0).view(1, 2, 4, 4)
    y = PaddedShortcut(2, 4, 2)(x)
    assert y.shape == (1, 4, 2, 2)
    assert torch.equal(y[:, 1:3], x[:, :, ::2, ::2])
    assert y[:, [0, 3]].abs().sum() == 0


def test_building_is_reproducible():
    def weights():
        torch.manual_seed(0)
        return build_model("resnet20", num_classes=10).state_dict()

    first, second = weights(), weights()
    assert all(torch.equal(first[key], second[key]) for key in first)


@pytest.fixture
def users_module(monkeypatch):
    module = types.ModuleType("users_nets")
    module.build = lambda num_classes, width=4: nn.Sequential(
        nn.Flatten(), nn.Linear(12, width), nn.ReLU(), nn.Linear(width, num_classes)
    )
    module.convolution = lambda num_classes: nn.Conv2d(3, num_classes, 2)
    module.wrong = lambda num_classes: "a string"
    module.number = 3
    monkeypatch.setitem(sys.modules, "users_nets", module)


@pytest.mark.usefixtures("users_module")
def test_a_network_of_the_users_own():
    model = build_model("users_nets:build", num_classes=5, width=6)
    images = torch.randn(3, 3, 2, 2)
    features = features_of(model, images)
    assert features.shape == (3, 6)
    assert torch.equal(model[-1](features), model(images))
    assert not model[-1]._forward_pre_hooks  # nothing is left behind


@pytest.mark.usefixtures("users_module")
@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("users_nets:none", {}, "nothing to call"),
        ("users_nets:number", {}, "nothing to call"),
        ("users_nets:wrong", {}, "must be a torch module"),
        ("users_nets:build", {"depth": 3}, "depth"),
        ("users_nets:build", {"kind": 3}, "given \\(num_classes, kind\\)"),
        (":build", {}, "of the form module:callable"),
        ("resnet18", {"stem": "huge"}, "stem"),
        ("resnet20", {"stem": "small"}, "stem"),
        ("resnet99", {}, "use one of tiny-cnn"),
        ("wide-resnet-28-10", {"depth": 27}, "six per block"),
        ("wide-resnet-28-10", {"depth": 4}, "six per block"),
    ],
)
def test_what_cannot_be_built_is_a_sentence(name, options, words):
    with pytest.raises(ParameterError, match=words):
        build_model(name, num_classes=5, **options)


def test_a_module_that_is_not_installed_is_a_sentence():
    with pytest.raises(MissingExtraError, match="'no_such_library'"):
        build_model("no_such_library:net", num_classes=5)


@pytest.mark.parametrize("wrong", [{"num_classes": 1}, {"num_classes": 5, "in_channels": 0}])
def test_counts_out_of_range_are_refused(wrong):
    with pytest.raises(ParameterError):
        build_model("resnet20", **wrong)


@pytest.mark.usefixtures("users_module")
def test_features_need_a_linear_layer():
    model = build_model("users_nets:convolution", num_classes=5)
    with pytest.raises(ParameterError, match="linear layer"):
        features_of(model, torch.zeros(1, 3, 2, 2))
