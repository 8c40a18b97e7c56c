"""How often a bad model would ever be switched to, and how many audits a good one needs.

Negative controls do it the naive way, and fail.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from expertload import Cases, certify
from expertload.monitoring import ChallengerMonitor, certify_stream

pytestmark = pytest.mark.simulation

TARGET, ALPHA, RATE = 0.95, 0.05, 0.05
ROUNDS = 300


def limit(rounds=ROUNDS):
    """Alpha and three standard errors of the simulation."""
    return ALPHA + 3 * math.sqrt(ALPHA * (1 - ALPHA) / rounds)


def two_models(rng, n, *, error=0.05, by_now=(0.45, 0.95)):
    """Today's policy decides half; the new model accepts 95 % of those, and 45 % of the others."""
    now = rng.random(n) < 0.5
    then = rng.random(n) < np.where(now, by_now[1], by_now[0])
    inclusion = np.where(now, RATE, 1.0)
    return {
        "confidence": then.astype(float),
        "correct": np.where(rng.random(n) < inclusion, rng.random(n) >= error, np.nan),
        "accepted_now": now,
        "inclusion_probability": inclusion,
    }


def monitor(thresholds=0.5, **options):
    return ChallengerMonitor(
        target_accuracy=TARGET,
        thresholds=thresholds,
        **{"least_inclusion_probability": RATE, **options},
    )


def share(outcomes):
    return float(np.mean(list(outcomes)))


def rounds(n=ROUNDS):
    return (np.random.default_rng([11, number]) for number in range(n))


# ------------------------------------------------------------------ false switches


def test_a_model_that_errs_too_often_is_hardly_ever_confirmed():
    false = share(monitor().update(**two_models(rng, 8000)).is_certified for rng in rounds())
    assert 0.003 < false <= limit()


def test_no_bad_threshold_of_twenty_is_ever_certified():
    """Errors are .02 for the sure half of cases and rise from there, to .10 on average of all."""

    def false(rng):
        confidence = rng.random(4000)
        error = np.where(confidence > 0.5, 0.02, 0.02 + 0.32 * (1 - 2 * confidence))
        seen = monitor(np.arange(0, 1, 0.05), least_inclusion_probability=1.0)
        seen.update(confidence, rng.random(4000) >= error)
        accepted = np.linspace(seen.threshold, 1, 1000) if seen.is_certified else np.ones(1)
        mean = np.where(accepted > 0.5, 0.02, 0.02 + 0.32 * (1 - 2 * accepted)).mean()
        return mean > 1 - TARGET, seen.is_certified

    bad, certified = np.array([false(rng) for rng in rounds()]).T
    assert bad.mean() <= limit()
    assert certified.mean() > 0.95


def test_equal_loads_are_hardly_ever_called_lower():
    def switched(rng):
        cases = two_models(rng, 2000, error=0.0, by_now=(0.2, 0.8))
        seen = monitor()
        for rows in np.array_split(np.arange(2000), 40):
            seen.update(**{name: values[rows] for name, values in cases.items()})
            if seen.load_evidence >= 1 / ALPHA:
                return True
        return False

    false = share(switched(rng) for rng in rounds())
    assert 0.003 < false <= limit()


def patients(rng, n_patients=1600, size=5, correlation=0.6):
    """Cases of patients: a patient's cases are wrong together."""
    cases = two_models(rng, n_patients * size)
    same = rng.random(n_patients) < correlation
    wrong_together = np.repeat(rng.random(n_patients) < 0.05, size)
    wrong = np.where(np.repeat(same, size), wrong_together, rng.random(n_patients * size) < 0.05)
    labelled = ~np.isnan(cases["correct"])
    return {**cases, "correct": np.where(labelled, ~wrong, np.nan)}


def test_patients_are_not_a_way_to_be_confirmed():
    numbers = np.repeat(np.arange(1600), 5)
    false = share(
        monitor().update(**patients(rng), clusters=numbers).is_certified for rng in rounds()
    )
    assert false <= limit()


def test_patients_counted_as_independent_break_it():
    """The negative control: every case is read, so that all cases of a patient come together."""

    def false(rng, clusters):
        cases = {**patients(rng, 400), "inclusion_probability": 1.0}
        wrong = np.repeat(rng.random(400) < 0.05, 5)  # always together
        cases["correct"] = (~wrong).astype(float)
        return monitor(least_inclusion_probability=1.0).update(**cases, clusters=clusters)

    naive = share(false(rng, None).is_certified for rng in rounds())
    counted = share(false(rng, np.repeat(np.arange(400), 5)).is_certified for rng in rounds())
    assert naive > 0.12
    assert counted <= limit()


def late(rng, n=1500):
    """Cases that are all read; right labels take up to 20 cases, wrong ones 200."""
    correct = rng.random(n) >= 0.05
    return correct.astype(float), np.arange(n) + np.where(correct, rng.integers(0, 20, n), 200)


def test_wrong_cases_that_take_longer_do_not_help():
    def false(rng):
        correct, arrival = late(rng)
        seen = monitor(least_inclusion_probability=1.0)
        for now in range(50, 1501, 50):
            seen.update(np.ones(50), key=list(range(now - 50, now)))
            come = np.flatnonzero((arrival < now) & (arrival >= now - 50) & (np.arange(1500) < now))
            if len(come):
                seen.answer(correct[come], key=come.tolist())
            if seen.is_certified:
                return True
        return False

    assert share(false(rng) for rng in rounds(200)) <= limit(200)


def test_labels_counted_as_they_arrive_break_it():
    """The negative control: at any time, wrong labels are still on their way."""

    def false(rng):
        correct, arrival = late(rng)
        order = np.argsort(arrival, kind="stable")
        return monitor(least_inclusion_probability=1.0).update(np.ones(1500), correct[order])

    assert share(false(rng).is_certified for rng in rounds(100)) > 0.9


def uneven(rng, n=8000):
    """Doubtful cases are audited three times as often; all errors are among the sure ones."""
    cases = two_models(rng, n, by_now=(0.0, 1.0))
    doubtful = rng.random(n) < 0.5
    inclusion = np.where(cases["accepted_now"], np.where(doubtful, 3 * RATE, RATE), 1.0)
    wrong = rng.random(n) < np.where(doubtful, 0.0, 0.1)
    correct = np.where(rng.random(n) < inclusion, ~wrong, np.nan)
    return {**cases, "correct": correct, "inclusion_probability": inclusion}


def test_uneven_audits_keep_it():
    false = share(monitor().update(**uneven(rng)).is_certified for rng in rounds())
    assert false <= limit()


def test_uneven_audits_counted_as_even_break_it():
    """The negative control: every case that is read counts the same."""

    def false(rng):
        cases = uneven(rng, 20_000)
        return monitor().update(**{**cases, "inclusion_probability": RATE}).is_certified

    assert share(false(rng) for rng in rounds(60)) > 0.5


# ------------------------------------------------------------------ trying again


def tries(rng, certifies):
    """Whether one of twenty tries certifies, with a hundred more cases each time."""
    confidence, correct = rng.random(2000), rng.random(2000) >= 0.0501
    return any(
        certifies(Cases.from_correctness(correct[:n], confidence[:n])).is_certified
        for n in range(100, 2001, 100)
    )


def test_certifying_again_and_again_breaks_the_promise():
    """The negative control: the certificate for one try, tried twenty times."""
    false = share(tries(rng, lambda c: certify(c, target_accuracy=TARGET)) for rng in rounds(200))
    assert 0.12 < false < 0.35  # about 24 in 100


def test_evidence_over_the_stream_may_be_tried_again_and_again():
    def anew(cases):
        return certify_stream(cases, target_accuracy=TARGET, thresholds=np.arange(0, 1, 0.05))

    assert share(tries(rng, anew) for rng in rounds(150)) <= limit(150)


# ------------------------------------------------------------------ how long it takes


def audits_of(rng, n, *, error, by_now, harder=1.0):
    """Count the audits of today's decisions until the new model's promise is shown.

    Today's policy decides half of all cases; where it does not, the new model errs `harder` times
    as often. Only cases that are read are drawn, and only those that the new model accepts are
    shown to the monitor: the others are no evidence about its promise.
    """
    now = rng.random(n) < RATE / (RATE + 1)
    least = error * sum(by_now) / (harder * by_now[0] + by_now[1])
    correct = rng.random(n) >= np.where(now, least, harder * least)
    (then,) = np.nonzero(rng.random(n) < np.where(now, by_now[1], by_now[0]))
    inclusion = np.where(now, RATE, 1.0)[then]
    seen = monitor().update(np.ones(len(then)), correct[then], inclusion_probability=inclusion)
    shown = seen.history() >= 1 / ALPHA
    return now[: then[np.argmax(shown)] + 1].sum() if shown.any() else math.inf


HARDER = {"by_now": (0.4, 0.9), "harder": 2.0}
NOTHING_NEW = {"by_now": (0.0, 1.0)}


@pytest.mark.parametrize(
    ("setting", "error", "wanted"),
    [
        (HARDER, 0.01, 92),
        (HARDER, 0.02, 175),
        (HARDER, 0.03, 355),
        (NOTHING_NEW, 0.01, 144),
        (NOTHING_NEW, 0.02, 290),
        (NOTHING_NEW, 0.03, 691),
    ],
)
def test_audits_until_a_good_model_is_confirmed(setting, error, wanted):
    """The more the new model accepts of what is delegated, and so read, the fewer are needed."""
    n = 40 * wanted  # about twice as many audits
    median = np.median([audits_of(rng, n, error=error, **setting) for rng in rounds()])
    assert median == pytest.approx(wanted, rel=0.1)
