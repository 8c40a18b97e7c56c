"""Every step: what it is made of, and whether validation data have it taken."""

from __future__ import annotations

from statistics import fmean

import numpy as np
import pytest
from scipy.special import softmax
from tests.lab.ladder.made_up import SKILLS, labels_of, make_networks

from expertload import aucoc_score
from expertload.lab.ladder.steps import STEPS, Network, climb
from expertload.lab.runs.folder import RunFolder


def proba_of(run, kind, split):
    path = run.folder.path
    folder = RunFolder(path) if kind == "selected" else RunFolder(path / "answers" / kind)
    return softmax(folder.read_logits(split)[0].astype(np.float64), axis=1)


@pytest.fixture
def networks(tmp_path):
    return make_networks(tmp_path)


def test_the_steps_are_climbed_in_their_order(networks):
    ladder = climb(networks)
    assert [step.name for step in ladder.steps] == list(STEPS)
    assert all(step.is_taken for step in ladder.steps)
    assert np.array_equal(ladder.test_labels, labels_of("test"))


@pytest.mark.parametrize("split", ["validation", "test"])
def test_every_step_answers_with_what_it_says(networks, split):
    steps = {step.name: step for step in climb(networks).steps}
    expected = {
        "plain": [proba_of(n.plain, "selected", split) for n in networks],
        "augmentation": [proba_of(n.augmented, "raw", split) for n in networks],
        "averaging": [proba_of(n.augmented, "selected", split) for n in networks],
        "views": [proba_of(n.augmented, "views", split) for n in networks],
    }
    expected["networks"] = [sum(expected["views"]) / 2]
    expected["aucoc"] = [sum(proba_of(n.aucoc, "views", split) for n in networks) / 2]
    for name, wanted in expected.items():
        found = [getattr(model, split) for model in steps[name].models]
        np.testing.assert_allclose(found, wanted, rtol=1e-12, err_msg=name)


def test_what_a_model_costs(networks):
    steps = {step.name: step for step in climb(networks).steps}
    assert [m.passes for m in steps["averaging"].models] == [1, 1]
    assert [m.passes for m in steps["views"].models] == [2, 2]
    assert [m.passes for m in steps["networks"].models] == [4]
    assert [m.seconds for m in steps["plain"].models] == [10.0, 10.0]
    assert steps["networks"].models[0].seconds == 20.0


@pytest.mark.parametrize("refused", ["augmentation", "aucoc"])
def test_a_step_that_validation_data_refuse_changes_nothing(tmp_path, refused):
    worse = {"augmentation": "augmented", "aucoc": "aucoc"}[refused]
    networks = make_networks(tmp_path, skills={**SKILLS, worse: 0.3})
    steps = climb(networks).steps
    names = [step.name for step in steps]
    step, before = steps[names.index(refused)], steps[names.index(refused) - 1]
    assert not step.is_taken
    assert step.models == before.models
    assert step.validation_aucoc < before.validation_aucoc


def test_a_step_is_taken_by_the_mean_over_networks_on_validation_data(networks):
    labels = labels_of("validation")
    for step in climb(networks).steps:
        mean = fmean(aucoc_score(labels, model.validation) for model in step.models)
        assert step.validation_aucoc == pytest.approx(mean, abs=1e-12)


def test_without_augmentation_later_steps_rest_on_plain_runs(tmp_path):
    networks = make_networks(tmp_path, skills={**SKILLS, "augmented": 0.3})
    steps = {step.name: step for step in climb(networks).steps}
    assert [run.name for run in steps["networks"].runs] == [n.plain.name for n in networks]
    views = sum(proba_of(n.plain, "views", "test") for n in networks) / 2
    np.testing.assert_allclose(steps["networks"].models[0].test, views, rtol=1e-12)


def test_a_step_can_be_taken_whatever_validation_data_say(tmp_path):
    networks = make_networks(tmp_path, skills={**SKILLS, "augmented": 0.5, "aucoc": 0.3})
    steps = climb(networks, always=["augmentation", "aucoc"]).steps
    assert all(step.is_taken for step in steps)


def test_a_ladder_goes_as_far_as_there_are_runs(networks):
    def names(*some):
        return [step.name for step in climb(some).steps]

    first, second = networks
    assert names(Network(first.plain)) == ["plain", "averaging", "views"]
    assert names(first) == list(STEPS)[:4]
    assert names(first, second._replace(aucoc=None)) == list(STEPS)[:5]
    assert names(first, second._replace(plain=None)) == list(STEPS)


def test_a_network_without_a_plain_run_counts_only_together(networks):
    first, second = networks
    steps = {s.name: s for s in climb([first, second._replace(plain=None)]).steps}
    assert len(steps["views"].models) == 1
    both = sum(proba_of(n.augmented, "views", "test") for n in networks) / 2
    np.testing.assert_allclose(steps["networks"].models[0].test, both, rtol=1e-12)
