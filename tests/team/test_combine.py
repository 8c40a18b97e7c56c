"""Combining an expert's answer with the model's probabilities: the formula, folds, and files."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from tests.reference import team as reference
from tests.team.test_curve import example

from expertload import Cases
from expertload.calibrators import TemperatureScaling
from expertload.exceptions import FileFormatError, InsufficientDataError, ParameterError
from expertload.team import Combiner, load_combiner, team_curve


def test_it_is_bayes_rule():
    cases = example(400)
    combiner = Combiner().fit(cases)
    confusion = reference.confusion(cases.target.tolist(), cases.expert_answers.tolist(), 3)
    np.testing.assert_allclose(combiner.confusion_, confusion)
    scaling = TemperatureScaling(input="probabilities").fit(cases.proba, cases.target)
    assert combiner.temperature_ == scaling.temperature_
    found = combiner.transform(cases.proba[:50], cases.expert_answers[:50])
    for row, proba, answer in zip(found, cases.proba, cases.expert_answers, strict=False):
        expected = reference.combined(proba, answer, combiner.temperature_, confusion)
        np.testing.assert_allclose(row, expected, rtol=1e-9)


def test_without_an_answer_the_calibrated_probabilities_stay():
    cases = example(400)
    combiner = Combiner().fit(cases)
    found = combiner.transform(cases.proba[:2], [None, 1])
    scaling = TemperatureScaling(input="probabilities").fit(cases.proba, cases.target)
    np.testing.assert_allclose(found[0], scaling.transform(cases.proba[:1])[0])
    assert found[1, 1] > scaling.transform(cases.proba[:2])[1, 1]


def test_two_opinions_beat_one():
    fit, new = example(500), example(20_000, seed=1)
    plain, combined = team_curve(new), team_curve(new, combine=Combiner().fit(fit))
    assert combined.accuracy.max() > plain.accuracy.max() + 0.005
    best = plain.accuracy[plain.best]
    assert combined.load_at_accuracy(best) < 0.85 * plain.expert_load[plain.best]


def test_folds_keep_cases_out_of_their_own_answer():
    """With few cases of many classes, a combiner fitted on the same cases flatters itself."""
    rng = np.random.default_rng(0)
    gaps = []
    for _ in range(20):
        truth, answers = rng.integers(0, 8, (2, 120))
        proba = np.full((120, 8), 1 / 8)
        cases = Cases.from_predictions(truth, proba, expert_answers=answers, labels=range(8))
        own, folds = Combiner().fit(cases), Combiner()
        gaps.append([team_curve(cases, combine=c).accuracy[-1] for c in (own, folds)])
    own, folds = np.mean(gaps, axis=0)
    assert own > 0.2
    assert folds == pytest.approx(1 / 8, abs=0.03)


def test_folds_are_of_whole_clusters():
    """Copies of a case in one cluster must not tell about each other."""
    rng = np.random.default_rng(0)
    truth, answers = rng.integers(0, 8, (2, 60))
    rows = np.repeat(np.arange(60), 4)
    cases = Cases.from_predictions(
        truth[rows], np.full((240, 8), 1 / 8), expert_answers=answers[rows], labels=range(8)
    )
    leaky = team_curve(cases, combine=Combiner()).accuracy[-1]
    assert team_curve(replace(cases, clusters=rows), combine=Combiner()).accuracy[-1] < leaky - 0.05


def test_cases_read_more_often_count_less():
    cases = example(4000)
    rare = cases.target == 0
    chance = np.where(rare & (cases.expert_answers != 0), 1.0, 0.25)
    read = np.random.default_rng(0).random(4000) < chance
    answers = [int(a) if r else None for a, r in zip(cases.expert_answers, read, strict=True)]
    whole = Combiner().fit(cases).confusion_
    np.testing.assert_allclose(
        Combiner().fit(cases.with_experts(answers, chance)).confusion_, whole, atol=0.06
    )
    assert Combiner().fit(cases.with_experts(answers)).confusion_[0, 0] < whole[0, 0] - 0.1


def test_it_is_saved_and_loaded(tmp_path):
    combiner = Combiner().fit(example(300))
    combiner.save(tmp_path / "combiner.json")
    again = load_combiner(tmp_path / "combiner.json")
    assert again.to_dict() == combiner.to_dict()
    assert Combiner.from_dict(combiner.to_dict()).labels_ == (0, 1, 2)


def test_files_that_were_changed_are_refused(tmp_path):
    path = tmp_path / "combiner.json"
    Combiner().fit(example(300)).save(path)
    path.write_text(path.read_text().replace('"temperature_": ', '"temperature_": 1'))
    with pytest.raises(FileFormatError, match="changed after it was saved"):
        load_combiner(path)
    path.write_text(json.dumps({"kind": "expertload calibrator", "schema_version": 1}))
    with pytest.raises(FileFormatError, match="kind"):
        load_combiner(path)


@pytest.mark.parametrize(
    ("labels", "state"),
    [
        ([0, 1], {"temperature_": 1.0, "confusion_": [[0.5, 0.5]]}),
        ([0, 1], {"temperature_": 1.0}),
    ],
)
def test_impossible_combiners_are_refused(labels, state):
    from expertload.team.combine import DOCUMENT

    with pytest.raises(FileFormatError):
        Combiner.from_dict(DOCUMENT.complete({"labels": labels, "state": state}))


def test_bad_input():
    cases = example(300)
    with pytest.raises(InsufficientDataError, match="20"):
        Combiner().fit(example(10))
    with pytest.raises(ParameterError, match="expert_answers"):
        Combiner().fit(Cases.from_predictions([0, 1], [0.2, 0.6]))
    labels, proba = [0, 1] * 20, [0.2, 0.6, 0.7, 0.3] * 10
    other = Cases.from_predictions(labels, proba, expert_answers=[0, 1, 1, 1] * 10)
    with pytest.raises(ParameterError, match="combine"):
        team_curve(cases, combine=Combiner().fit(other))
