import json
import sys
import types
from colorsys import rgb_to_hsv

import pytest
import torch
from tests.conftest import DATA
from tests.losses.test_baselines import batch
from torch import nn

from expertload.exceptions import MissingExtraError, ParameterError
from expertload.losses import CombinedLoss, FocalLoss, SoftECELoss, build_loss
from expertload.losses.build import LOSS_NAMES, import_callable

BEYOND = ["mmce", "ce+aucoc_upper_bound", "ce+confidence_penalty"]


def test_the_names_are_those_of_the_published_tables():
    rows = json.loads((DATA / "published_results.json").read_text())["cifar100/wrn-28-10"]
    assert set(rows) == set(LOSS_NAMES)
    assert len(LOSS_NAMES) == 11


@pytest.mark.parametrize(
    "name", [*LOSS_NAMES, "adafocal53+aucoc", "adafocal53+sece", "mmce", *BEYOND]
)
def test_every_loss_trains(name):
    logits, target = batch(dtype=torch.float32)
    logits.requires_grad_()
    value = build_loss(name)(logits, target)
    value.backward()
    assert value.isfinite()
    assert logits.grad.isfinite().all()
    assert logits.grad.abs().max() > 0


def test_a_pair_is_its_parts():
    loss = build_loss("focal+sece", weight=5.0, temperature=0.1, primary_options={"gamma": 2.0})
    assert isinstance(loss, CombinedLoss)
    logits, target = batch()
    expected = FocalLoss(gamma=2.0)(logits, target) + 5 * SoftECELoss(temperature=0.1)(
        logits, target
    )
    assert loss(logits, target) == expected


def test_a_single_loss_takes_the_options():
    assert build_loss("focal", gamma=1.0).gamma == 1.0
    assert isinstance(build_loss("ce", label_smoothing=0.1), nn.CrossEntropyLoss)


def test_ignore_index_reaches_every_part():
    loss = build_loss("ce+mmce", ignore_index=3)
    assert loss.primary.ignore_index == 3
    assert loss.secondary.ignore_index == 3


@pytest.mark.parametrize("name", ["", "aucoc+ce", "ce+", "ce+focal", "CE", "ce+aucoc+mmce", 3])
def test_an_unknown_name_lists_the_known_ones(name):
    with pytest.raises(ParameterError) as error:
        build_loss(name)
    for known in LOSS_NAMES:
        assert repr(known) in str(error.value)


@pytest.fixture(autouse=True)
def users_module(monkeypatch):
    module = types.ModuleType("users_losses")
    module.smooth = lambda kind=0.0, **more: nn.CrossEntropyLoss(label_smoothing=kind, **more)
    module.function = lambda: nn.functional.cross_entropy
    module.number = 3
    monkeypatch.setitem(sys.modules, "users_losses", module)


def test_a_loss_of_the_users_own_gets_the_options():
    loss = build_loss("users_losses:smooth", kind=0.2)
    assert isinstance(loss, nn.CrossEntropyLoss)
    assert (loss.label_smoothing, loss.ignore_index) == (0.2, -100)
    assert build_loss("users_losses:smooth", ignore_index=3).ignore_index == 3


def test_an_own_loss_may_be_either_part_of_a_pair():
    logits, target = batch()
    smooth = nn.CrossEntropyLoss(label_smoothing=0.2)(logits, target)
    focal, ece = FocalLoss()(logits, target), SoftECELoss()(logits, target)
    second = build_loss("focal+users_losses:smooth", weight=3.0, kind=0.2)
    assert second(logits, target) == focal + 3 * smooth
    first = build_loss("users_losses:smooth+sece", primary_options={"kind": 0.2})
    assert first(logits, target) == smooth + ece


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("users_losses:none", {}, "nothing to call named 'none'"),
        ("users_losses:number", {}, "nothing to call named 'number'"),
        ("users_losses:function", {}, "loss 'users_losses:function' must be a torch module"),
        ("users_losses:smooth", {"sharpness": 1}, "options it was given \\(sharpness\\)"),
        ("users_losses:smooth", {"weight": 1.0}, "'weight'"),
        ("users_losses:smooth+aucoo", {}, "'confidence_penalty', 'module:callable'. Got 'aucoo'"),
        ("aucoc+users_losses:smooth", {}, "'gce', 'module:callable'. Got 'aucoc'"),
        ("ce+users_losses:smooth+sece", {}, "of the form module:callable"),
        (":smooth", {}, "of the form module:callable"),
        ("users_losses:", {}, "of the form module:callable"),
        ("..losses:smooth", {}, "of the form module:callable"),
    ],
)
def test_an_own_loss_that_cannot_be_built_is_a_sentence(name, options, words):
    with pytest.raises(ParameterError, match=words):
        build_loss(name, **options)


def test_a_module_that_is_not_installed_is_a_sentence():
    with pytest.raises(MissingExtraError, match="The loss 'no_such_library:build'"):
        build_loss("ce+no_such_library:build")


def test_an_unknown_option_lists_the_known_ones():
    with pytest.raises(ParameterError, match=r"'sharpness'.*temperature, n_bins, norm"):
        build_loss("ce+sece", sharpness=1)


@pytest.mark.parametrize("option", [{"weight": 2.0}, {"primary_options": {"gamma": 1.0}}])
def test_options_of_a_pair_are_refused_for_a_single_loss(option):
    with pytest.raises(ParameterError, match=f"'{next(iter(option))}'"):
        build_loss("focal", **option)


def test_the_primary_part_may_ignore_another_target():
    with pytest.warns(UserWarning, match="different class numbers, 3 and 4"):
        loss = build_loss("ce+aucoc", ignore_index=3, primary_options={"ignore_index": 4})
    assert (loss.primary.ignore_index, loss.secondary.ignore_index) == (4, 3)


@pytest.mark.parametrize(
    ("name", "near"),
    [("cee", "ce"), ("ce+aucok", "ce+aucoc"), ("CE+AUCOC", "ce+aucoc"), ("ce + sece", "ce+sece")],
)
def test_a_misspelled_name_is_answered_with_the_nearest(name, near):
    with pytest.raises(ParameterError) as error:
        build_loss(name)
    assert str(error.value).endswith(f"Got {name!r} instead. Hint: did you mean {near!r}?")
    assert "gce+savuc" not in str(error.value)  # parts are listed, not every pair of them


def test_a_module_of_the_working_folder_is_found_after_installed_ones(tmp_path, monkeypatch):
    """The `expertload` script has no working folder on its path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [entry for entry in sys.path if entry not in ("", ".")])
    (tmp_path / "own_losses_here.py").write_text("def smooth():\n    return 7\n")
    (tmp_path / "colorsys.py").write_text("def rgb_to_hsv():\n    return 7\n")
    assert import_callable("own_losses_here:smooth", "loss")() == 7
    assert import_callable("colorsys:rgb_to_hsv", "loss") is rgb_to_hsv
