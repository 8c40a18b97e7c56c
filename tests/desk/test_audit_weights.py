"""How much an audit counts: labels that lean towards the model, doubtful decisions, patients."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from expertload.desk.intake.sampling import audit_rates
from expertload.desk.watch.quality import audit_weight
from expertload.monitoring import accuracy_lower_bound, evidence_path, required_audits
from tests.desk.invariants import check_all
from tests.desk.world import sent

RNG = np.random.default_rng(27)
TARGET = 0.95


# ------------------------------------------------------------------ labels that lean

# A decision that is right; wrong ones, and who says so: nobody, the second, the first reader.
TWICE = (("quality", "second"),) * 2 + (("quality", "second", "arbiter"), ("quality", "arbiter"))
ONCE = (("quality",),) * 3 + (("quality", "arbiter"),)


def audited(accuracy, repeats, streams, n):
    """Whether each decision is wrong, and how the reading of each goes, as a number of `TWICE`."""
    wrong = RNG.random((streams, n)) >= accuracy
    first, second = RNG.random((2, streams, n)) < repeats
    how = np.where(~first, 3, np.where(~second, 2, 1))
    return np.where(wrong, how, 0)


def labels(how, share, *, weighted):
    """Errors as the desk sees them, and weights; a second reader is asked in a share."""
    asked = RNG.random(how.shape) < share
    case = SimpleNamespace(rate=1.0, least=1.0, twice=share)
    alone = np.array([audit_weight(case, whys) for whys in ONCE])
    twice = np.array([audit_weight(case, whys) for whys in TWICE])
    errors = (how == 3) | ((how == 2) & asked)
    weights = np.where(asked, twice[how], alone[how]) if weighted else np.ones(how.shape)
    return errors.astype(float), weights


def confirmed(errors, weights, every=20):
    """The share of streams in which the promise is confirmed at some time."""
    wrong, total = np.cumsum(errors * weights, axis=1), np.cumsum(weights, axis=1)
    looks = slice(every - 1, None, every)
    bound = accuracy_lower_bound(wrong[:, looks], total[:, looks])
    return float((bound >= TARGET).any(axis=1).mean())


@pytest.mark.simulation
def test_a_mistake_that_readers_share_with_the_model_is_not_confirmed():
    """Readers repeat a wrong answer with probability .5; the accuracy is .93, and not .95."""
    how = audited(0.93, 0.5, streams=400, n=2_000)
    before = confirmed(*labels(how, 0.1, weighted=False))
    assert 0.5 < before < 0.8, before
    for share, streams in ((1.0, how), (0.5, how)):
        after = confirmed(*labels(streams, share, weighted=True))
        assert after <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400), (share, after)


@pytest.mark.simulation
@pytest.mark.parametrize("share", [1.0, 0.3])
def test_weighted_labels_neither_lean_nor_raise_false_alarms(share):
    """The weighted share of errors is the one that two readers and an arbiter see."""
    how = audited(TARGET, 0.0, streams=300, n=2_000)
    errors, weights = labels(how, share, weighted=True)
    assert (errors * weights).sum() / weights.sum() == pytest.approx(1 - TARGET, abs=0.002)
    path = evidence_path(1 - errors, target_accuracy=TARGET, weight=np.maximum(weights, 1e-12))
    assert (path.max(axis=1) >= 20).mean() <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 300)


@pytest.mark.parametrize(
    ("twice", "whys", "weight"),
    [
        (0.3, ["quality"], 0.0),
        (0.3, ["quality", "second"], 0.5),
        (0.3, ["quality", "second", "arbiter"], 0.5),
        (0.3, ["quality", "arbiter"], 0.15),
        (0.3, [], 0.5),
        (0.0, ["quality"], 0.5),
        (None, ["quality", "arbiter"], 0.5),
    ],
)
def test_an_agreement_counts_where_it_was_read_twice(twice, whys, weight):
    case = SimpleNamespace(rate=0.2, least=0.1, twice=twice)
    assert audit_weight(case, whys) == pytest.approx(weight)


def test_the_desk_asks_a_second_reader_and_counts_what_both_say(world):
    world.with_rules(quality_rate=1.0, audit_second_share=1.0)
    world.activate()
    world.send(*(sent(f"c{i}") for i in range(3)))
    for i in range(3):
        world.answer(world.claim("ann"), "cat" if i else "dog", "ann")
    assert {world.case(f"c{i}").audit for i in range(3)} == {"open"}
    while (held := world.claim("bob")) is not None:
        world.answer(held, "cat", "bob")
    held = world.claim("zoe", "arbiter")
    world.answer(held, "dog", "zoe", "arbiter")
    assert sorted(world.case(f"c{i}").audit for i in range(3)) == ["right", "right", "wrong"]
    assert {world.case(f"c{i}").weight for i in range(3)} == {1.0}
    check_all(world.desk)


# ------------------------------------------------------------------ doubtful decisions


@pytest.mark.parametrize(("rate", "ratio"), [(0.07, 3), (0.5, 3), (1.0, 3), (0.2, 1), (0.9, 10)])
def test_both_rates_together_read_the_share_that_was_asked_for(rate, ratio):
    least, doubtful = audit_rates(rate, ratio)
    assert 0 <= least <= doubtful <= 1
    assert 0.8 * least + 0.2 * doubtful == pytest.approx(rate)


def test_doubtful_decisions_are_read_more_often_and_count_less(world):
    world.with_rules(quality_rate=0.3)
    world.activate()
    confidences = np.linspace(0.85, 0.999, 100)
    world.send(*(sent(f"c{i}", p) for i, p in enumerate(confidences)))
    world.answer(world.claim(), "cat")
    world.send(*(sent(f"d{i}", 0.86 if i % 2 else 0.99) for i in range(200)))
    rows = [world.case(f"d{i}") for i in range(200)]
    assert {round(row.rate, 4) for row in rows[1::2]} == {round(0.9 / 1.4, 4)}
    assert {round(row.rate, 4) for row in rows[::2]} == {round(0.3 / 1.4, 4)}
    drawn = [sum(row.audit is not None for row in rows[k::2]) for k in (1, 0)]
    assert 45 < drawn[0] < 83
    assert 8 < drawn[1] < 36
    while (held := world.claim()) is not None:
        world.answer(held, "cat")
    weights = {round(world.case(f"d{i}").weight or 0, 4) for i in range(1, 200, 2)}
    assert weights == {0.0, 0.3333}, "those that were not drawn have none"
    check_all(world.desk)


@pytest.mark.simulation
def test_audits_of_doubtful_decisions_find_a_fall_sooner_and_no_false_one():
    alike = required_audits(0.95, 0.90, n_rounds=1_000)
    by_doubt = required_audits(
        0.95, 0.90, doubtful_ratio=3, doubtful_errors=0.7, after=500, accuracy_before=0.95
    )
    assert by_doubt.false_alarms <= 0.05
    sooner = required_audits(0.95, 0.90, doubtful_ratio=3, doubtful_errors=0.7, n_rounds=1_000)
    assert sooner.mean < 0.9 * alike.mean


# ------------------------------------------------------------------ patients


@pytest.mark.simulation
def test_patients_raise_no_false_alarm_where_the_first_case_of_each_counts():
    """Five cases a patient, intraclass correlation .6: all of them counted, and the first ones."""
    streams, patients = 200, 400
    r, rho = 1 - TARGET, 0.6
    shape = (1 - rho) / rho
    risk = RNG.beta(r * shape, (1 - r) * shape, size=(streams, patients, 1))
    wrong = (RNG.random((streams, patients, 5)) < risk).astype(float)
    naive = evidence_path(1 - wrong.reshape(streams, -1), target_accuracy=TARGET)
    first = evidence_path(1 - wrong[:, :, 0], target_accuracy=TARGET)
    assert (naive.max(axis=1) >= 20).mean() > 0.5
    assert (first.max(axis=1) >= 20).mean() <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / streams)
