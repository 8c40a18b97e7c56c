"""How many audits a fall takes: the tables of the design, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from expertload.exceptions import InsufficientDataError, ParameterError
from expertload.monitoring import required_audits

pytestmark = pytest.mark.simulation

# Target .95, level .95: mean and 95th percentile of the audits until the alarm.
TABLE = {
    (None, 0.90, 0): (195, 468),
    (None, 0.90, 1000): (433, 817),
    (None, 0.85, 0): (63, 145),
    (24, 0.90, 0): (207, 492),
    (24, 0.90, 1000): (321, 643),
    (24, 0.85, 0): (65, 152),
}


@pytest.mark.parametrize(("blocks", "drop_to", "after"), TABLE)
def test_detection_times_are_those_of_the_design(blocks, drop_to, after):
    found = required_audits(
        0.95, drop_to, blocks=blocks, after=after, accuracy_before=0.97, n_rounds=3000
    )
    mean, percentile = TABLE[blocks, drop_to, after]
    assert found.mean == pytest.approx(mean, rel=0.1)
    assert found.percentile_95 == pytest.approx(percentile, rel=0.1)
    assert found.false_alarms < 0.01


def test_without_restarts_a_late_fall_takes_twice_as_long():
    """The negative control: one block gets all, and must first win back what it lost."""
    once = required_audits(0.95, 0.90, blocks=1, after=1000, accuracy_before=0.97, n_rounds=1000)
    assert once.mean > 2 * required_audits(0.95, 0.90, after=1000, n_rounds=500).mean


def test_the_same_question_has_the_same_answer():
    first, second = (required_audits(0.9, 0.7, n_rounds=200) for _ in range(2))
    assert first == second
    assert first != required_audits(0.9, 0.7, n_rounds=200, random_state=1)
    assert "audits on average" in str(first)


def test_larger_falls_and_lower_levels_are_found_sooner():
    means = [required_audits(0.95, drop, n_rounds=300).mean for drop in (0.91, 0.88, 0.8)]
    assert means == sorted(means, reverse=True)
    assert (
        required_audits(0.95, 0.9, confidence_level=0.8, n_rounds=300).mean
        < required_audits(0.95, 0.9, confidence_level=0.99, n_rounds=300).mean
    )


def test_what_cannot_be_found_is_said():
    with pytest.raises(InsufficientDataError, match="from 0.95 to 0.949"):
        required_audits(0.95, 0.949)
    with pytest.raises(ParameterError, match="must be below the target"):
        required_audits(0.95, 0.96)
    with pytest.raises(ParameterError, match="'after'"):
        required_audits(0.95, 0.9, after=-1)


def test_falls_that_a_period_misses_are_infinite():
    """A monitor for one block bets once; after very many good cases nothing is left of it."""
    missed = required_audits(0.95, 0.9, blocks=1, after=100_000, accuracy_before=1, n_rounds=5)
    assert missed.percentile_95 == np.inf
