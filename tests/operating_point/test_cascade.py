"""Two models in sequence, one promise: what is certified, on the population, and on real judges."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom
from tests.operating_point.populations import limit

from expertload import Cases, certify
from expertload.exceptions import ParameterError, ShapeError, WeightError
from expertload.io import FileOptions, read_cases
from expertload.operating_point import certify_cascade, load_operating_point

TARGET, DELTA, ROUNDS = 0.85, 0.1, 300


def counted(small, large, thresholds):
    """Return decided cases, errors among them and cases that the large model sees, by a loop."""
    decided = errors = handed = 0
    for c1, right1, c2, right2 in zip(
        small.confidence, small.correct, large.confidence, large.correct, strict=True
    ):
        if c1 >= thresholds[0]:
            decided, errors = decided + 1, errors + (not right1)
            continue
        handed += 1
        if c2 >= thresholds[1]:
            decided, errors = decided + 1, errors + (not right2)
    return decided, errors, handed


def drawn(rng, n, levels=None):
    c1, c2 = rng.random((2, n))
    if levels:
        c1, c2 = np.ceil(c1 * levels) / levels, np.ceil(c2 * levels) / levels
    small = Cases.from_correctness(rng.random(n) < 0.6 + 0.4 * c1, c1)
    return small, Cases.from_correctness(rng.random(n) < 0.75 + 0.25 * c2, c2)


@pytest.mark.parametrize("levels", [None, 6])
@pytest.mark.parametrize("handover", [0.2, 0.7, 1.0])
def test_it_is_one_model_with_kept_cases_first(levels, handover):
    small, large = drawn(np.random.default_rng(1), 600, levels)
    cascade = certify_cascade(small, large, handover=handover, target_accuracy=TARGET)
    pairs = zip(small.confidence, large.confidence, strict=True)
    keys = [(1, c1) if c1 >= handover else (0, c2) for c1, c2 in pairs]
    place = {key: i for i, key in enumerate(sorted(set(keys)))}
    right = [
        s if key[0] else r for key, s, r in zip(keys, small.correct, large.correct, strict=True)
    ]
    plain = certify(
        Cases.from_correctness(right, [place[key] for key in keys]), target_accuracy=TARGET
    )
    assert (cascade.point.n_accepted, cascade.point.n_errors) == (plain.n_accepted, plain.n_errors)
    decided, errors, handed = counted(
        small, large, (cascade.small.threshold, cascade.large.threshold)
    )
    assert (decided, errors) == (cascade.point.n_accepted, cascade.point.n_errors)
    assert handed == cascade.large.n_cases
    assert cascade.small.n_errors + cascade.large.n_errors == errors
    assert cascade.small.threshold >= handover
    assert cascade.large.threshold == math.inf or cascade.small.threshold == handover


def test_where_the_small_model_alone_is_certified_the_large_one_is_not_asked():
    n = 400
    small = Cases.from_correctness([1] * 200 + [0] * 200, np.linspace(1, 0, n))
    large = Cases.from_correctness([0] * n, np.linspace(1, 0, n))
    cascade = certify_cascade(small, large, handover=0.3, target_accuracy=TARGET)
    assert cascade.is_certified
    assert (cascade.large.threshold, cascade.large_share) == (math.inf, 0)
    assert cascade.small.threshold > 0.3


# ------------------------------------------------------------------ costs and words


def test_the_cheapest_handover_is_taken_and_all_share_the_level():
    small, large = drawn(np.random.default_rng(2), 3000)
    prices, options = (0.01, 0.5, 1.0), {"target_accuracy": TARGET}
    each = [
        certify_cascade(
            small, large, handover=h, costs=prices, confidence_level=1 - 0.05 / 3, **options
        )
        for h in (0.3, 0.6, 0.9)
    ]
    chosen = certify_cascade(small, large, handover=[0.3, 0.6, 0.9], costs=prices, **options)
    assert chosen.mean_cost == min(one.mean_cost for one in each)
    assert len({one.mean_cost for one in each}) > 1
    assert chosen.confidence_level == 0.95
    decided, _, handed = counted(small, large, (chosen.small.threshold, chosen.large.threshold))
    expected = 0.01 + 0.5 * handed / 3000 + (3000 - decided) / 3000
    assert chosen.mean_cost == pytest.approx(expected)
    text = str(chosen)
    assert f"mean cost of a case {chosen.mean_cost:.6g}" in text
    assert "by either model is at least 0.85" in text


def test_nothing_certified_delegates_everything():
    small, large = drawn(np.random.default_rng(0), 30)
    cascade = certify_cascade(small, large, handover=0.5, target_accuracy=0.99)
    assert not cascade.is_certified
    assert cascade.mean_cost == cascade.expert_load == 1
    assert str(cascade).startswith("Nothing is certified at a target of 0.99")


def test_new_cases_are_decided_in_sequence(tmp_path):
    rng, n = np.random.default_rng(0), 2000
    truth = np.array(["no", "yes"])[rng.integers(2, size=n)]
    probabilities = [
        np.where(truth == "yes", chance, 1 - chance) for chance in rng.beta([[4], [8]], 2, (2, n))
    ]
    small, large = (Cases.from_predictions(truth, proba) for proba in probabilities)
    cascade = certify_cascade(small, large, handover=0.8, target_accuracy=TARGET)
    accepted, labels = cascade.decide(*probabilities)
    assert accepted.sum() == cascade.point.n_accepted
    assert (labels != truth)[accepted].sum() == cascade.point.n_errors
    cascade.small.save(tmp_path / "small.json")
    cascade.large.save(tmp_path / "large.json")
    first = load_operating_point(tmp_path / "small.json").decide(probabilities[0])
    then = load_operating_point(tmp_path / "large.json").decide(probabilities[1][~first.accepted])
    assert first.accepted.sum() + then.accepted.sum() == accepted.sum()
    assert (labels[~first.accepted] == then.labels).all()


def test_careless_arguments():
    small, large = drawn(np.random.default_rng(0), 50)
    options = {"handover": 0.5, "target_accuracy": 0.8}
    with pytest.raises(ShapeError):
        certify_cascade(small, large.take(np.arange(49)), **options)
    with pytest.raises(ParameterError, match=r"'handover'.*pass 0\.9 for 90 %"):
        certify_cascade(small, large, handover=[0.5, 90], target_accuracy=0.8)
    with pytest.raises(ParameterError, match="'costs'"):
        certify_cascade(small, large, costs=(1, 2), **options)
    weighted = Cases.from_correctness([1] * 50, range(50), sample_weight=range(1, 51))
    with pytest.raises(WeightError):
        certify_cascade(weighted, large, **options)
    first = Cases.from_predictions([0, 1, 1], [0.1, 0.8, 0.7])
    other = Cases.from_predictions([1, 0, 1], [0.1, 0.8, 0.7])
    with pytest.raises(ParameterError, match="'large'.*same true labels"):
        certify_cascade(first, other, **options)


# ------------------------------------------------------------------ the promise, simulated

# The chance that the small and the large model is right, given both hidden confidences.
WORLDS = {
    "never quite": (lambda a, b: 0 * a + 0.845, lambda a, b: 0 * a + 0.845),
    "small lures": (lambda a, b: 0 * a + 0.84, lambda a, b: 0.6 + 0.3 * b),
    "wave": (lambda a, b: 0.85 + 0.1 * np.cos(15 * a), lambda a, b: 0.85 - 0.1 * np.cos(9 * b)),
    "good top, bad rest": (lambda a, b: np.where(a > 0.8, 0.95, 0.5), lambda a, b: 0.6 + 0 * b),
    "hard cases are handed over": (lambda a, b: 0.7 + 0.3 * a, lambda a, b: 0.5 + 0.4 * a),
}


class World:
    """Confidences are uniform and independent; both may be shown rounded up."""

    def __init__(self, name, levels):
        self.small, self.large = WORLDS[name]
        self.levels = levels
        grid = (np.arange(700) + 0.5) / 700
        a, b = (side.ravel() for side in np.meshgrid(grid, grid))
        self.shown, self.right = (
            (self._show(a), self._show(b)),
            (self.small(a, b), self.large(a, b)),
        )

    def _show(self, hidden):
        return np.ceil(hidden * self.levels) / self.levels if self.levels else hidden

    def draw(self, rng, n):
        a, b = rng.random((2, n))
        return (
            Cases.from_correctness(rng.random(n) < self.small(a, b), self._show(a)),
            Cases.from_correctness(rng.random(n) < self.large(a, b), self._show(b)),
        )

    def is_broken(self, cascade):
        """Whether the accuracy of automatic decisions is below the target on the population."""
        first = self.shown[0] >= cascade.small.threshold
        then = ~first & (self.shown[1] >= cascade.large.threshold)
        decided = first.sum() + then.sum()
        if not cascade.is_certified or not decided:
            return False
        # a grid of 700 by 700 is as fine as this
        return (self.right[0][first].sum() + self.right[1][then].sum()) / decided < TARGET - 2e-4


@pytest.mark.simulation
@pytest.mark.parametrize("levels", [None, 8])
@pytest.mark.parametrize("handover", [0.5, [0.2, 0.5, 0.8]], ids=["one", "three"])
@pytest.mark.parametrize("name", WORLDS)
def test_the_promise_is_kept(name, handover, levels):
    world, rng, broken = World(name, levels), np.random.default_rng(0), 0
    for _ in range(ROUNDS):
        cascade = certify_cascade(
            *world.draw(rng, 400),
            handover=handover,
            target_accuracy=TARGET,
            confidence_level=1 - DELTA,
        )
        broken += world.is_broken(cascade)
    assert broken / ROUNDS <= limit(DELTA, ROUNDS)


@pytest.mark.simulation
def test_choosing_both_thresholds_on_the_same_labels_breaks_it():
    """The negative control: every handover at the whole level, and the lowest load is taken."""
    world, rng, broken = World("never quite", None), np.random.default_rng(0), 0
    options = {"target_accuracy": TARGET, "confidence_level": 1 - DELTA}
    for _ in range(100):
        cases = world.draw(rng, 400)
        each = (certify_cascade(*cases, handover=h, **options) for h in np.linspace(0, 1, 60))
        broken += world.is_broken(min(each, key=lambda one: one.expert_load))
    assert broken / 100 > limit(DELTA, 100)


# ------------------------------------------------------------------ real judges


def bonferroni_pair(small, large, rows, grid):
    """Return the pair of a fixed grid that decides most, each tested at its part of the level."""
    best, pair = 0, (math.inf, math.inf)
    for t1 in grid:
        first = small.confidence[rows] >= t1
        for t2 in grid:
            then = ~first & (large.confidence[rows] >= t2)
            n = first.sum() + then.sum()
            errors = n - small.correct[rows][first].sum() - large.correct[rows][then].sum()
            if n > best and binom.cdf(errors, n, 1 - TARGET) <= DELTA / len(grid) ** 2:
                best, pair = n, (t1, t2)
    return pair


@pytest.mark.simulation
def test_real_judges_decide_more_than_a_grid_with_bonferroni(shared):
    """Risk 0.15 at level 0.1, as in "Trust or Escalate" (Jung, Brahman and Choi, ICLR 2025).

    The 500 comparisons are the population; calibration cases are drawn from them with replacement.
    """
    folder = shared / "data" / "human"
    if not (folder / "judge_gpt-3_5-turbo.csv").exists():
        pytest.skip("the judgements of two language models are not at hand")
    logs = ", ".join(f"ln(p_{i}::DOUBLE) AS logprob_{i + 1}" for i in (0, 1))
    options = FileOptions(query=f"SELECT preferred_by_people AS label, {logs} FROM file")
    small = read_cases(folder / "judge_mistral-7b-instruct.csv", options=options)
    large = read_cases(folder / "judge_gpt-3_5-turbo.csv", options=options)

    def outcome(pair):
        decided, errors, _ = counted(small, large, pair)
        return decided / len(small), decided > 0 and errors / decided > 1 - TARGET

    rng, found = np.random.default_rng(0), {"ours": [], "three": [], "grid": []}
    for _ in range(60):
        rows = rng.integers(len(small), size=len(small))
        for name, handover in (("ours", 0.99), ("three", [0.9, 0.95, 0.99])):
            cascade = certify_cascade(
                small.take(rows),
                large.take(rows),
                handover=handover,
                target_accuracy=TARGET,
                confidence_level=1 - DELTA,
            )
            found[name].append(outcome((cascade.small.threshold, cascade.large.threshold)))
        grid = np.linspace(0.5, 1, 10, endpoint=False)
        found["grid"].append(outcome(bonferroni_pair(small, large, rows, grid)))
    share, broken = {}, {}
    for name, rounds in found.items():
        share[name], broken[name] = np.mean(rounds, axis=0)
    assert broken["ours"] <= DELTA
    assert broken["three"] <= DELTA
    assert share["ours"] > 2 * share["grid"]
    assert share["three"] > 2 * share["grid"]
