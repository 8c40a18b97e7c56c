"""The promise itself: how often a kept promise is called refuted, or a broken one confirmed, ever.

Each test repeats 12,000 audits many times; the negative controls do it the naive way and fail.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from expertload.monitoring import AccuracyMonitor, evidence_path
from expertload.monitoring.bets import _log_evidence

pytestmark = pytest.mark.simulation

N = 12_000
ROUNDS = 1200
TARGET, ALPHA = 0.95, 0.05


def limit(rounds=ROUNDS):
    """Alpha and three standard errors of the simulation."""
    return ALPHA + 3 * math.sqrt(ALPHA * (1 - ALPHA) / rounds)


def right(accuracy, seed=0, rounds=ROUNDS, n=N):
    return np.random.default_rng(seed).random((rounds, n)) < accuracy


def strata(seed=0, rounds=ROUNDS, n=N, fall=0.0):
    """Audits of a population that is .95 right, of which the doubtful part is audited more often.

    Seven of ten cases are .98 right and audited at .1; the others .88 right and audited at .3.
    """
    rng = np.random.default_rng(seed)
    doubtful = rng.random((rounds, n)) < 0.3 * 0.3 / (0.3 * 0.3 + 0.7 * 0.1)
    correct = rng.random((rounds, n)) < np.where(doubtful, 0.88, 0.98) - fall
    return correct, np.where(doubtful, 0.1 / 0.3, 1.0)


def refuted(correct, **options):
    path = evidence_path(correct, target_accuracy=TARGET, **options)
    return (path.max(axis=-1) >= 1 / ALPHA).mean()


# ------------------------------------------------------------------ the alarm


@pytest.mark.parametrize("blocks", [None, 24])
def test_a_kept_promise_is_hardly_ever_refuted(blocks):
    false_alarms = refuted(right(TARGET), blocks=blocks)
    assert false_alarms <= limit()
    assert false_alarms > 0.01  # a monitor that never speaks would be of no use


def test_a_kept_promise_that_wanders_is_hardly_ever_refuted():
    """Good for long, then just at the target: restarts must not add up."""
    accuracy = np.where(np.arange(N) // 1500 % 2, TARGET, 0.99)
    assert refuted(right(accuracy)) <= limit()


def test_uneven_audits_keep_the_promise():
    correct, weight = strata()
    false_alarms = refuted(correct, weight=weight)
    assert false_alarms <= limit()
    assert false_alarms > 0.005


def test_uneven_audits_counted_as_even_break_it():
    """The negative control: the doubtful cases are audited more often, and look like a fall."""
    assert refuted(strata(rounds=100, n=3000)[0]) > 0.9


def test_uneven_audits_find_a_fall():
    correct, weight = strata(rounds=300, n=2000, fall=0.05)
    assert refuted(correct, weight=weight) > 0.9


def test_looking_again_and_again_at_an_exact_test_breaks_it():
    """The negative control: a binomial test at .05, looked at every 50 audits."""
    wrong = (~right(TARGET, rounds=300)).cumsum(axis=1)[:, 49::50]
    n = np.arange(50, N + 1, 50)
    p_values = binom.sf(wrong - 1, n, 1 - TARGET)
    assert (p_values.min(axis=1) <= ALPHA).mean() > 2 * limit(300)


# ------------------------------------------------------------------ delays

WAIT = 400
LOOKS = range(300, 3001, 300)


def seen(correct, decided, wait_right, wait_wrong):
    """Grades of the cases decided so far, NaN where the label is not there yet."""
    so_far = correct[:, :decided]
    wait = np.where(so_far, wait_right, wait_wrong)
    return np.where(np.arange(decided) + wait <= decided, so_far, np.nan)


@pytest.mark.parametrize(("wait_right", "wait_wrong"), [(WAIT, 0), (0, WAIT)])
def test_delays_that_depend_on_the_answer_keep_the_promise(wait_right, wait_wrong):
    correct = right(TARGET, rounds=500, n=LOOKS[-1])
    alarms = np.zeros(len(correct), dtype=bool)
    for decided in LOOKS:
        grades = seen(correct, decided, wait_right, wait_wrong)
        path = evidence_path(np.where(np.isnan(grades), 1, grades), target_accuracy=TARGET)
        alarms |= path.max(axis=1) >= 1 / ALPHA
    assert alarms.mean() <= limit(500)


def test_the_monitor_does_what_was_just_simulated():
    correct = right(TARGET, rounds=20, n=900)
    for stream in correct:
        watched = AccuracyMonitor(target_accuracy=TARGET)
        answered = np.zeros(0, dtype=bool)
        for decided in (300, 600, 900):
            grades = seen(stream[None], decided, WAIT, 0)[0]
            keys = np.arange(decided)
            new = keys >= len(answered)
            old = np.append(answered, np.zeros(new.sum(), dtype=bool))
            batch = new | (~old & ~np.isnan(grades))
            watched.update(grades[batch], key=keys[batch])
            answered = ~np.isnan(grades)
            path = evidence_path(np.where(np.isnan(grades), 1, grades), target_accuracy=TARGET)
            assert watched.evidence == pytest.approx(path[-1])
            assert watched.highest_evidence == pytest.approx(path.max())


def test_labels_counted_as_they_come_break_it():
    """The negative control: errors are seen at once, right cases weeks later."""
    correct = right(TARGET, rounds=200, n=3000)
    arrival = np.arange(3000) + np.where(correct, WAIT, 0)
    in_order = np.take_along_axis(correct, np.argsort(arrival, axis=1, kind="stable"), axis=1)
    assert refuted(in_order) > 0.9


def test_a_limit_on_misses_is_watched_with_the_cases_of_experts():
    """Of a class 5 % are missed and 35 % decided rightly, a fifth of both audited; experts read 60.

    The control: the audits alone, in which the promise looks broken although it is kept.
    """
    kind = np.random.default_rng(0).choice(3, (ROUNDS, N), p=np.array([0.01, 0.07, 0.6]) / 0.68)
    correct, weight = kind > 0, np.where(kind == 2, 0.2, 1.0)
    assert 0.01 < refuted(correct, weight=weight) <= limit()
    assert refuted(right(0.07 / 0.08, rounds=200, n=2000)) > 0.95


# ------------------------------------------------------------------ the bound


def missed(correct, average, weight=None):
    """How often the bound ever exceeded the average accuracy it is a bound of."""
    weight = np.ones_like(correct, dtype=float) if weight is None else weight
    wrong, total = (weight * ~correct).cumsum(axis=1), weight.cumsum(axis=1)
    ever = np.zeros(len(correct), dtype=bool)
    for part in np.array_split(np.arange(correct.shape[1]), 12):
        rate = np.broadcast_to(1 - average, correct.shape)[:, part]
        log = _log_evidence(wrong[:, part], total[:, part], rate)
        ever |= (log >= math.log(1 / ALPHA)).any(axis=1)
    return ever.mean()


@pytest.mark.parametrize("accuracy", [0.95, 0.8])
def test_the_bound_hardly_ever_misses(accuracy):
    misses = missed(right(accuracy, rounds=600), accuracy)
    assert misses <= limit(600)
    assert misses > 0.003


def test_the_bound_holds_for_the_running_average_under_drift():
    accuracy = np.where(np.arange(N) < 2000, 0.99, 0.93)
    average = accuracy.cumsum() / np.arange(1, N + 1)
    assert missed(right(accuracy, rounds=600), average) <= limit(600)


def test_the_bound_holds_for_uneven_audits():
    correct, weight = strata(rounds=600)
    assert missed(correct, TARGET, weight) <= limit(600)


def test_a_bound_for_one_look_misses():
    """The negative control: a one-sided exact bound, looked at every 50 audits."""
    correct = right(TARGET, rounds=300)
    wrong = (~correct).cumsum(axis=1)[:, 49::50]
    p_values = binom.cdf(wrong, np.arange(50, N + 1, 50), 1 - TARGET)
    assert (p_values.min(axis=1) <= ALPHA).mean() > 2 * limit(300)


def test_confirming_takes_about_240_audits_at_two_percent_errors():
    wrong = (~right(0.98, rounds=1000, n=2000)).cumsum(axis=1).astype(float)
    audits = np.broadcast_to(np.arange(1, 2001.0), wrong.shape)
    log = _log_evidence(wrong, audits, np.asarray(1 - TARGET))
    first = (log >= math.log(1 / ALPHA)).argmax(axis=1) + 1
    assert np.median(first) == pytest.approx(240, rel=0.1)
