"""Certification: how much is certified, at what load, against other procedures; and its speed.

Populations are those of the tests whose accuracy can reach a target, and four real ones:
predictions of simple models for data sets that come with scikit-learn, drawn with replacement and
blurred a little. The oracle knows the population. The load beyond the oracle's is what a procedure
delegates in addition.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import numpy as np
from mapie.risk_control import BinaryClassificationController
from sklearn import datasets
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from tests.operating_point.populations import POPULATIONS, Population, drawn_steps, rising
from tests.reference import rivals

from benchmarks.measure import best_times, row
from expertload import Cases
from expertload.operating_point import certify_classes
from expertload.operating_point.certify import Calibration, certify_independent, run_tests
from expertload.operating_point.graded import descend_from, grant, plan_starts
from expertload.operating_point.ladder import Ladder, Promise, Steps

SIZES = {200: 24, 500: 24, 1000: 20, 2000: 12, 5000: 8, 20_000: 3}  # and how many draws of each
TARGETS = (0.85, 0.9, 0.95)
LEVEL = 0.05
MAPIE_METHODS = ("bonferroni_holm", "bonferroni", "fixed_sequence")
ROUNDED = (20, 100, 400)
RIVALS = ("fixed_sequence", "single start", "sgr", "bonferroni")


class RealPopulation:
    """Predictions for a data set, drawn with replacement, with slightly blurred confidences."""

    def __init__(self, model: object, x: np.ndarray, y: np.ndarray) -> None:
        proba = cross_val_predict(model, x, y, cv=5, method="predict_proba")
        self.correct, self.confidence = proba.argmax(axis=1) == y, proba.max(axis=1)
        correct, confidence = self.draw(np.random.default_rng(1), 200_000)
        order = np.argsort(-confidence)
        share = np.arange(1, len(order) + 1)
        self.accuracy = np.cumsum(correct[order]) / share

    def draw(self, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the correctness and the confidence of new cases."""
        rows = rng.integers(0, len(self.correct), n)
        return self.correct[rows], self.confidence[rows] + 0.01 * rng.standard_normal(n)

    def steps(self, n: int, rounds: int) -> list[Steps]:
        """Return calibration sets, each as cases and errors accepted at each confidence."""
        rng, found = np.random.default_rng(0), []
        for _ in range(rounds):
            correct, confidence = self.draw(rng, n)
            order = np.argsort(-confidence)
            errors = np.cumsum(~correct[order]).astype(float)
            found.append(Steps(confidence[order], np.arange(1.0, n + 1), errors))
        return found

    def oracle_load(self, target: float) -> float:
        """Return the smallest load that reaches a target on the population."""
        reached = np.flatnonzero(self.accuracy >= target)
        return 1 - (reached[-1] + 1) / len(self.accuracy) if len(reached) else 1.0


@cache
def real_populations() -> dict[str, RealPopulation]:
    digits, cancer = datasets.load_digits(), datasets.load_breast_cancer()
    wine, sugar = datasets.load_wine(), datasets.load_diabetes()
    logistic = LogisticRegression(max_iter=5000)
    return {
        "digits": RealPopulation(GaussianNB(var_smoothing=0.1), digits.data, digits.target),
        "breast cancer": RealPopulation(logistic, cancer.data[:, :4], cancer.target),
        "wine": RealPopulation(logistic, wine.data[:, :3], wine.target),
        "diabetes": RealPopulation(
            DecisionTreeClassifier(min_samples_leaf=25, random_state=0),
            sugar.data,
            sugar.target > 140,
        ),
    }


def _rounded(target: float, *, levels: int) -> Population:
    """Confidences with few digits, as many systems store them."""
    return Population(rising(target - 0.3, 1.0), levels=levels)


def settings(n: int, rounds: int) -> list[tuple[float, float, list[Steps]]]:
    """Return (target, oracle's load, calibration sets) for targets that can be reached."""
    found = []
    more = {
        "capped": lambda t: Population(lambda r: np.minimum(0.5 + 0.6 * r, t + 0.025)),
        **{f"rounded to {levels}": partial(_rounded, levels=levels) for levels in ROUNDED},
    }
    for target in TARGETS:
        for make in {**POPULATIONS, **more}.values():
            population = make(target)
            load = population.least_load(target)
            if load < 0.95:
                found.append((target, load, list(drawn_steps(population, n, rounds))))
        for real in real_populations().values():
            load = real.oracle_load(target)
            if load < 0.95:
                found.append((target, load, real.steps(n, rounds)))
    return found


def single_start(steps: Steps, n: int, target: float) -> Ladder:
    """Certify from one starting point with the whole level, for any number of cases."""
    start = plan_starts(n, target, LEVEL)[0]._replace(level=LEVEL)
    runs = descend_from(steps.p_values(target), grant(steps.n_accepted, [start]))
    return Ladder(steps, runs, target)


def run(method: str, steps: Steps, n: int, target: float) -> Ladder:
    if method == "single start":
        return single_start(steps, n, target)
    if method in rivals.RIVALS:
        return rivals.RIVALS[method](steps, n, target, LEVEL)
    return run_tests(steps, n, Promise(target, LEVEL, method=method))  # type: ignore[arg-type]


def power() -> None:
    methods = ("spending", *RIVALS)
    print("share certified / mean load beyond the oracle's, level 0.05")
    print(f"{'n':>7} " + " ".join(f"{method:>16}" for method in methods))
    for n, rounds in SIZES.items():
        drawn = settings(n, rounds)
        excess = {method: _measure(method, n, drawn) for method in methods}
        cells = (f"{share:6.1%} / {load:.3f}" for share, load in excess.values())
        print(f"{n:>7} " + " ".join(f"{cell:>16}" for cell in cells))
        if n >= 500:
            for rival in RIVALS:
                ahead = excess[rival][1] - excess["spending"][1]
                row(f"    load saved against {rival}, n = {n}", ahead, unit="", at_least=0)


def _measure(
    method: str, n: int, drawn: list[tuple[float, float, list[Steps]]]
) -> tuple[float, float]:
    shares, beyond = [], []
    for target, oracle, sets in drawn:
        rows = [run(method, steps, n, target) for steps in sets]
        found = [ladder.loosest for ladder in rows]
        loads = [
            1.0 if row_ is None else 1 - ladder.steps.n_accepted[row_] / n
            for ladder, row_ in zip(rows, found, strict=True)
        ]
        shares.append(np.mean([row_ is not None for row_ in found]))
        beyond.append(np.mean(loads) - oracle)
    return float(np.mean(shares)), float(np.mean(beyond))


def beside_mapie() -> None:
    """Precision and misses of two classes, on two noisy circles, one inside the other.

    The share of new cases decided with the promise: positive answers for a precision, negative ones
    for a recall, which is one minus the share missed.
    """
    circles = partial(datasets.make_circles, noise=0.3, factor=0.3)
    model = SVC(probability=True, random_state=1).fit(*circles(n_samples=2000, random_state=1))
    new = model.predict_proba(circles(n_samples=50_000, random_state=2)[0])
    print("share decided at the same guarantee (0.9), mean of 20 draws: expertload / MAPIE's best")
    for n in (200, 500, 1000, 3000):
        for risk, target in (("precision", 0.9), ("recall", 0.95)):
            ours, theirs = [], []
            for seed in range(20):
                x, y = circles(n_samples=n, random_state=100 + seed)
                ours.append(_our_share(risk, target, y, model.predict_proba(x), new))
                theirs.append(
                    [_mapie_share(risk, target, x, y, model, new, each) for each in MAPIE_METHODS]
                )
            own, other = float(np.mean(ours)), float(np.mean(theirs, axis=0).max())
            print(f"{n:>7} {risk:>10} {target}: {own:.3f} / {other:.3f}")
            gain = f"    share gained against MAPIE, {risk}, n = {n}"
            row(gain, own - other, unit="", at_least=-0.01)


def _our_share(
    risk: str, target: float, y: np.ndarray, proba: np.ndarray, new: np.ndarray
) -> float:
    text = f"precision:1={target}" if risk == "precision" else f"missed:1={1 - target:.6g}"
    cases = Cases.from_predictions(y, proba, labels=[0, 1])
    policy = certify_classes(cases, promises=text, confidence_level=0.9)
    return float(policy.decide(new).accepted.mean())


def _mapie_share(
    risk: str,
    target: float,
    x: np.ndarray,
    y: np.ndarray,
    model: SVC,
    new: np.ndarray,
    method: str,
) -> float:
    controller = BinaryClassificationController(
        model.predict_proba, risk, target_level=target, confidence_level=0.9, fwer_method=method
    ).calibrate(x, y)
    threshold = controller.best_predict_param
    if threshold is None:
        return 0.0
    positive = new[:, 1] >= threshold
    return float(positive.mean() if risk == "precision" else (~positive).mean())


def speed() -> None:
    rng = np.random.default_rng(0)
    n = 10_000_000
    confidence = rng.random(n)
    drawn = [  # the second cannot reach the target anywhere
        Cases.from_correctness(rng.random(n) < low + 0.3 * confidence, confidence)
        for low in (0.7, 0.3)
    ]
    total = sum(cases.tally.total for cases in drawn)  # counted before the clock starts
    print(f"{total:.0f} cases")

    def certify(cases: Cases) -> Callable[[], object]:
        return lambda: certify_independent(Calibration(cases), Promise(0.95, LEVEL)).guarantee

    sort, passes, fails = best_times(
        lambda: np.sort(confidence), certify(drawn[0]), certify(drawn[1]), repeats=2
    )
    row("certify 10 million distinct confidences, relative to np.sort", passes / sort, at_most=4)
    row("    the same, nothing certified, with advice", fails / sort, at_most=8)


def main() -> None:
    """Run all of them."""
    print("certification")
    speed()
    power()
    beside_mapie()
