import json

import pytest
import torch
from tests.conftest import SHARED
from tests.losses.test_baselines import batch
from torch import nn

from expertload.exceptions import ParameterError
from expertload.losses import CombinedLoss, FocalLoss, SoftECELoss, build_loss
from expertload.losses.build import LOSS_NAMES

PUBLISHED = SHARED / "paper" / "published_results.json"


def test_the_names_are_those_of_the_published_tables():
    if not PUBLISHED.exists():
        pytest.skip("the published results are not at hand")
    rows = json.loads(PUBLISHED.read_text())["cifar100/wrn-28-10"]
    assert set(rows) == set(LOSS_NAMES)
    assert len(LOSS_NAMES) == 11


@pytest.mark.parametrize("name", [*LOSS_NAMES, "adafocal53+aucoc", "adafocal53+sece", "mmce"])
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


def test_an_unknown_option_lists_the_known_ones():
    with pytest.raises(ParameterError, match=r"'sharpness' to 'sece'.*temperature, n_bins, norm"):
        build_loss("ce+sece", sharpness=1)


@pytest.mark.parametrize("option", [{"weight": 2.0}, {"primary_options": {"gamma": 1.0}}])
def test_options_of_a_pair_are_refused_for_a_single_loss(option):
    with pytest.raises(ParameterError, match=f"'{next(iter(option))}' parameter of build_loss"):
        build_loss("focal", **option)
