"""Tests whether one run, or one group of runs, is better than another beyond chance.

There are two kinds of chance. The *test cases* are a sample: paired tests on them (a permutation
test, and for AUCOC the closed form) show whether these networks would also differ on other cases.
The *seeds* are a sample too: the paired differences of runs with equal seeds show whether training
again would give the difference again. A single pair of runs can only answer the first question.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from expertload._check import check_count, check_fraction
from expertload.curve import aucoc_score
from expertload.lab.results.measures import Measure, cases_of, find_measure
from expertload.lab.runs.finished import FinishedRun, Runs, check_same_cases, read_runs
from expertload.significance import (
    Comparison,
    PermutationResult,
    aucoc_paired_test,
    permutation_test,
)
from expertload.significance.compare import comparison_of
from expertload.significance.interval import Linearised


@dataclass(frozen=True, kw_only=True)
class SeedComparison:
    """Differences between runs that share a seed.

    Attributes
    ----------
    seeds : tuple of int
    differences : tuple of float
        First minus second, one for each seed.
    mean : Comparison
        Their mean, with interval and p-value from Student's t.
    """

    seeds: tuple[int, ...]
    differences: tuple[float, ...]
    mean: Comparison


@dataclass(frozen=True, kw_only=True)
class RunComparison:
    """The difference between two runs, or two groups of runs, on the test cases.

    A group predicts the mean of its runs' probabilities, so a group of one is that run.

    Attributes
    ----------
    number : str
        The number that is compared, such as ``"aucoc"``.
    names : tuple of str
        The names of the two sides.
    n_runs : tuple of int
        The number of runs of each side.
    n_cases : int
    confidence_level : float
        The confidence level of the intervals and of the summary.
    values : tuple of float
        The number of each side.
    permutation : PermutationResult
        For AUCOC it exchanges ranks, so a model that is only more confident does not count as
        different.
    closed_form : Comparison or None
        The paired test of AUCOC; None for other numbers.
    by_seed : SeedComparison or None
        None unless both sides have two runs or more, with the same seeds.
    """

    number: str
    names: tuple[str, str]
    n_runs: tuple[int, int]
    n_cases: int
    confidence_level: float
    values: tuple[float, float]
    permutation: PermutationResult
    closed_form: Comparison | None
    by_seed: SeedComparison | None

    @property
    def difference(self) -> float:
        """First minus second."""
        return self.values[0] - self.values[1]

    def __str__(self) -> str:
        """Return a summary in a few sentences."""
        return "\n".join(_sentences(self))


def compare_runs(
    first: Runs,
    second: Runs,
    *,
    number: str = "aucoc",
    confidence_level: float = 0.95,
    n_rounds: int = 1000,
    random_state: int = 0,
) -> RunComparison:
    """Compare two runs, or two groups of runs, on the same test cases.

    Parameters
    ----------
    first, second : path, FinishedRun, or sequence of these
        Folders of finished runs, all of the same data.
    number : str, default="aucoc"
        A name from `expertload.lab.results.measures`, such as ``"load@95"`` or ``"ece"``.
    confidence_level : float, default=0.95
        The confidence level of the intervals.
    n_rounds : int, default=1000
        Rounds of the permutation test.
    random_state : int, default=0
        Seed of the permutation test.

    Returns
    -------
    RunComparison
        Printed, it is a summary in words.

    Examples
    --------
    >>> import numpy as np
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from expertload.lab.results.compare import compare_runs
    >>> from expertload.lab.runs.recipe import RunConfig
    >>> from expertload.lab.runs.folder import RunFolder
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(0, 3, 400)
    >>> with TemporaryDirectory() as place:
    ...     for name, gain in (("ce", 1.0), ("ce+aucoc", 3.0)):
    ...         run = RunFolder(Path(place) / name)
    ...         run.create(RunConfig.model_validate({
    ...             "data": {"name": "digits"}, "model": {"name": "small-cnn"},
    ...             "loss": {"name": name},
    ...             "training": {"epochs": 1, "batch_size": 64, "learning_rate": 0.1}}))
    ...         logits = rng.normal(size=(400, 3)) + gain * np.eye(3)[labels]
    ...         for split in ("validation", "test"):
    ...             run.write_logits(split, logits, labels)
    ...         run.write_json("results.json", {})
    ...     comparison = compare_runs(Path(place) / "ce+aucoc", Path(place) / "ce")
    >>> print(f"{comparison.difference:.2f}, p = {comparison.permutation.p_value:.3f}")
    0.20, p = 0.001
    """
    level = check_fraction(confidence_level, "confidence_level", inclusive=False)
    check_count(n_rounds, "n_rounds")
    chosen = find_measure(number)
    sides = read_runs(first), read_runs(second)
    check_same_cases([*sides[0], *sides[1]])
    labels = sides[0][0].test[1]
    cases = [cases_of(labels, np.mean([r.test_proba for r in side], axis=0)) for side in sides]
    is_aucoc = chosen.name == "aucoc"
    return RunComparison(
        number=number,
        names=(_name(sides[0]), _name(sides[1])),
        n_runs=(len(sides[0]), len(sides[1])),
        n_cases=len(labels),
        confidence_level=level,
        values=(chosen.of(cases[0]), chosen.of(cases[1])),
        permutation=permutation_test(
            *cases,
            metric=aucoc_score if is_aucoc else chosen.of,
            n_rounds=n_rounds,
            random_state=random_state,
            exchange="ranks" if is_aucoc else "predictions",
        ),
        closed_form=aucoc_paired_test(*cases, confidence_level=level) if is_aucoc else None,
        by_seed=_by_seed(sides, chosen, level),
    )


def _name(runs: Sequence[FinishedRun]) -> str:
    """Return the name of a group of runs: its loss or losses."""
    return " and ".join(dict.fromkeys(run.label for run in runs))


# ------------------------------------------------------------------ seeds


def _by_seed(
    sides: tuple[Sequence[FinishedRun], Sequence[FinishedRun]], number: Measure, level: float
) -> SeedComparison | None:
    first, second = ({run.config.seed: run for run in side} for side in sides)
    paired = first.keys() == second.keys() and len(first) > 1
    if not paired or any(len(first) != len(side) for side in sides):
        return None
    seeds = tuple(sorted(first))
    labels = sides[0][0].test[1]
    differences = tuple(
        number.of(cases_of(labels, first[seed].test_proba))
        - number.of(cases_of(labels, second[seed].test_proba))
        for seed in seeds
    )
    return SeedComparison(
        seeds=seeds,
        differences=differences,
        mean=mean_difference(differences, confidence_level=level),
    )


def mean_difference(differences: Sequence[float], *, confidence_level: float = 0.95) -> Comparison:
    """Compute the mean of paired differences, with interval and p-value by Student's t.

    Examples
    --------
    >>> from expertload.lab.results.compare import mean_difference
    >>> print(mean_difference([0.01, 0.02, 0.03]))
    difference 0.0200 (95 % interval -0.0048 to 0.0448), p = 0.074
    """
    n = len(differences)
    error = float(np.std(differences, ddof=1)) / math.sqrt(n)
    return comparison_of(Linearised(float(np.mean(differences)), error, n - 1), confidence_level)


# ------------------------------------------------------------------ words


def _sentences(result: RunComparison) -> list[str]:
    number = find_measure(result.number)
    first, second = (
        name if n == 1 else f"{name} (ensemble of {n} runs)"
        for name, n in zip(result.names, result.n_runs, strict=True)
    )
    a, b = result.values
    sentences = [
        f"{number.heading} on {result.n_cases} test cases: {first} {a:.4f}, {second} {b:.4f}.",
        f"Permutation test: {result.permutation}.",
    ]
    if result.closed_form is not None:
        sentences.append(f"Closed form: {result.closed_form}.")
    chance = (result.closed_form or result.permutation).p_value

    def verdict(difference: float, p_value: float, names: tuple[str, str], what: str) -> str:
        if p_value >= 1 - result.confidence_level:
            return f"The choice of {what} alone could explain the difference (p = {p_value:.2g})."
        better = names[0] if (difference > 0) == number.higher_is_better else names[1]
        return f"{better} is better, beyond what the choice of {what} explains (p = {p_value:.2g})."

    sentences.append(verdict(result.difference, chance, (first, second), "test cases"))
    if result.by_seed is not None:
        mean, n = result.by_seed.mean, len(result.by_seed.seeds)
        sentences.append(f"Over {n} seeds: mean {mean}.")
        sentences.append(verdict(mean.difference, mean.p_value, result.names, "seeds"))
    return sentences
