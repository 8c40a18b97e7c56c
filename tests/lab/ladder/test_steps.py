"""Every step: what it is made of, and whether validation data have it taken."""

from __future__ import annotations

from statistics import fmean

import numpy as np
import pytest
from scipy.special import softmax
from tests.lab.ladder.made_up import SKILLS, labels_of, make_arms

from expertload import aucoc_score
from expertload.lab.ladder.steps import STEPS, Climb
from expertload.lab.runs.folder import RunFolder


def proba_of(run, kind, split):
    path = run.folder.path
    folder = RunFolder(path) if kind == "selected" else RunFolder(path / "answers" / kind)
    return softmax(folder.read_logits(split)[0].astype(np.float64), axis=1)


@pytest.fixture
def arms(tmp_path):
    return make_arms(tmp_path)


def test_the_steps_are_climbed_in_their_order(arms):
    ladder = Climb(arms)
    assert [step.name for step in ladder.steps] == list(STEPS)
    assert all(step.is_taken for step in ladder.steps)
    assert np.array_equal(ladder.test_labels, labels_of("test"))


@pytest.mark.parametrize("split", ["validation", "test"])
def test_every_step_answers_with_what_it_says(arms, split):
    steps = {step.name: step for step in Climb(arms).steps}
    expected = {
        "plain": [proba_of(run, "selected", split) for run in arms["plain"]],
        "augmentation": [proba_of(run, "raw", split) for run in arms["augmented"]],
        "averaging": [proba_of(run, "selected", split) for run in arms["augmented"]],
        "views": [proba_of(run, "views", split) for run in arms["augmented"]],
    }
    expected["networks"] = [sum(expected["views"]) / 2]
    expected["aucoc"] = [sum(proba_of(run, "views", split) for run in arms["aucoc"]) / 2]
    for name, wanted in expected.items():
        found = [getattr(model, split) for model in steps[name].models]
        np.testing.assert_allclose(found, wanted, rtol=1e-12, err_msg=name)


def test_what_a_model_costs(arms):
    steps = {step.name: step for step in Climb(arms).steps}
    assert [m.passes for m in steps["averaging"].models] == [1, 1]
    assert [m.passes for m in steps["views"].models] == [2, 2]
    assert [m.passes for m in steps["networks"].models] == [4]
    assert [m.seconds for m in steps["plain"].models] == [10.0, 10.0]
    assert steps["networks"].models[0].seconds == 20.0


@pytest.mark.parametrize("refused", ["augmentation", "aucoc"])
def test_a_step_that_validation_data_refuse_changes_nothing(tmp_path, refused):
    worse = {"augmentation": "augmented", "aucoc": "aucoc"}[refused]
    arms = make_arms(tmp_path, skills={**SKILLS, worse: 0.3})
    steps = Climb(arms).steps
    names = [step.name for step in steps]
    step, before = steps[names.index(refused)], steps[names.index(refused) - 1]
    assert not step.is_taken
    assert step.models == before.models
    assert step.validation_aucoc < before.validation_aucoc


def test_a_step_is_taken_by_the_mean_over_networks_on_validation_data(arms):
    labels = labels_of("validation")
    for step in Climb(arms).steps:
        mean = fmean(aucoc_score(labels, model.validation) for model in step.models)
        assert step.validation_aucoc == pytest.approx(mean, abs=1e-12)


def test_without_augmentation_later_steps_rest_on_plain_runs(tmp_path):
    arms = make_arms(tmp_path, skills={**SKILLS, "augmented": 0.3})
    steps = {step.name: step for step in Climb(arms).steps}
    assert [run.name for run in steps["networks"].runs] == [run.name for run in arms["plain"]]
    views = sum(proba_of(run, "views", "test") for run in arms["plain"]) / 2
    np.testing.assert_allclose(steps["networks"].models[0].test, views, rtol=1e-12)


def test_a_step_can_be_taken_whatever_validation_data_say(tmp_path):
    arms = make_arms(tmp_path, skills={**SKILLS, "augmented": 0.5, "aucoc": 0.3})
    steps = Climb(arms, always=["augmentation", "aucoc"]).steps
    assert all(step.is_taken for step in steps)


def test_a_ladder_goes_as_far_as_there_are_runs(arms):
    def names(**numbers):
        some = {arm: arms[arm][:number] for arm, number in numbers.items()}
        return [step.name for step in Climb(some).steps]

    assert names(plain=1) == ["plain", "averaging", "views"]
    assert names(plain=1, augmented=1, aucoc=1) == list(STEPS)[:4]
    assert names(plain=2, augmented=2, aucoc=1) == list(STEPS)[:5]
    assert names(plain=1, augmented=2, aucoc=2) == list(STEPS)


def test_a_network_without_a_plain_run_counts_only_together(arms):
    steps = {s.name: s for s in Climb({**arms, "plain": arms["plain"][:1]}).steps}
    assert len(steps["views"].models) == 1
    both = sum(proba_of(run, "views", "test") for run in arms["augmented"]) / 2
    np.testing.assert_allclose(steps["networks"].models[0].test, both, rtol=1e-12)
