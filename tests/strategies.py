"""Hypothesis strategies: small sets of cases, rich in ties; and how many examples to try."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st


def examples(number, **options):
    """So many examples in `make test`; in other profiles in proportion, but at least five."""
    share = settings.default.max_examples / settings.get_profile("default").max_examples
    return settings(max_examples=max(5, round(number * share)), **options)


def examples_in_one_folder(number):
    """For tests that write each example to the same `tmp_path`."""
    checks = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    return examples(number, suppress_health_check=checks)


@st.composite
def correctness_cases(draw, *, graded=True, min_size=1, max_size=24, unit=True):
    """(correct, confidence): few distinct values, so that most draws have ties."""
    n = draw(st.integers(min_size, max_size))
    grades = [0.0, 1.0, 0.25, 0.5] if graded and draw(st.booleans()) else [0.0, 1.0]
    correct = draw(st.lists(st.sampled_from(grades), min_size=n, max_size=n))
    levels = st.integers(0, 16).map(lambda k: k / 16 if unit else (k - 5) / 3)
    confidence = draw(st.lists(levels, min_size=n, max_size=n))
    return np.array(correct), np.array(confidence)


@st.composite
def predictions(draw, *, min_size=1, max_size=24):
    """(y_true, y_proba): probabilities are multiples of 1/16, exact in every precision.

    Class 0 always occurs, which makes numbers the places of columns.
    """
    n = draw(st.integers(min_size, max_size))
    n_classes = draw(st.integers(2, 4))
    rows = []
    for _ in range(n):
        cuts = sorted(
            draw(st.lists(st.integers(0, 16), min_size=n_classes - 1, max_size=n_classes - 1))
        )
        rows.append(np.diff([0, *cuts, 16]) / 16)
    others = draw(st.lists(st.integers(0, n_classes - 1), min_size=n - 1, max_size=n - 1))
    return np.array([0, *others]), np.array(rows)


@st.composite
def outlier_cases(draw, *, max_size=24):
    """(is_outlier, outlier_score), both sides present."""
    n = draw(st.integers(0, max_size))
    flags = [0, 1, *draw(st.lists(st.integers(0, 1), min_size=n, max_size=n))]
    scores = draw(st.lists(st.integers(-4, 4), min_size=n + 2, max_size=n + 2))
    return np.array(flags), np.array(scores, dtype=float)


def whole_weights(n):
    """Weights that are counts, not all zero."""
    return st.lists(st.integers(0, 3), min_size=n, max_size=n).filter(any).map(np.array)


@st.composite
def tied_cases(draw):
    """Right-or-wrong cases on a few levels of confidence, mostly right at the top."""
    n = draw(st.integers(1, 200))
    levels = draw(st.sampled_from([3, 12, 1000]))
    seed = draw(st.integers(0, 10**6))
    rng = np.random.default_rng(seed)
    confidence = rng.integers(0, levels, n) / levels
    correct = rng.random(n) < draw(st.sampled_from([0.7, 0.95, 1.0])) + 0.05 * confidence
    return correct, confidence
