"""How good each reader is, and how right the whole desk is.

The truth is known of golden cases, and of delegated cases that were drawn for a second reading: two
readers agree there, or an arbiter settles it. Which cases those are does not depend on any answer.
Of a cluster, such as a patient, only the first counts: whoever misreads one image misreads others.
Everything is counted from the answers when somebody looks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import text

from expertload.desk.store.database import SECOND, Transaction
from expertload.desk.store.tables import LIVE
from expertload.monitoring import accuracy_lower_bound
from expertload.team import Reader, Readings

# Readings of known truth that are counted, the latest ones; and the fewest for a statement.
MOST_READINGS = 50_000
FEWEST_READINGS = 10
# One equally good reader in so many would be named too.
NAMED_AT = 20.0
PACE_DAYS = 30
LEVEL = 0.05  # of the interval of the whole desk's accuracy

# The reader's own answer: what a manager corrected says nothing about the manager.
_KNOWN = text(f"""
    SELECT c.key, c.cluster, u.name, r.why, a.label,
      CASE WHEN c.state = 'golden' THEN c.truth ELSE live.label END AS truth
    FROM readings AS r
    JOIN cases AS c ON c.id = r.case_id
    JOIN answers AS a ON a.id = (
      SELECT max(own.id) FROM answers AS own WHERE own.reading_id = r.id
        AND own.reader = r.reader AND own.standing <> 'late')
    JOIN users AS u ON u.id = r.reader {LIVE}
    WHERE r.project_id = :project AND r.state = 'done' AND (
      (r.why = 'golden' AND c.state = 'golden')
      OR (r.why IN ('delegated', 'second') AND c.state = 'closed' AND NOT c.accepted
        AND EXISTS (
          SELECT 1 FROM readings AS second
          WHERE second.root = r.root AND second.case_id = r.case_id
            AND second.why = 'second' AND second.state = 'done')))
    ORDER BY r.id DESC LIMIT :most
""")
_PACE = text("""
    SELECT u.name, count(*) AS n, avg(a.seconds) AS seconds, max(a.given) AS latest
    FROM answers AS a JOIN users AS u ON u.id = a.reader
    JOIN readings AS r ON r.id = a.reading_id
    WHERE r.project_id = :project AND a.standing = 'counted' AND a.given > :since
    GROUP BY u.name
""")


# Delegated cases that were drawn for a second reading: both answers, and the decision.
_PAIRS = text(f"""
    SELECT c.id, c.cluster, a.label AS one, b.label AS other, live.label AS truth, c.state
    FROM readings AS r
    JOIN readings AS first ON first.id = r.root
    JOIN cases AS c ON c.id = r.case_id
    JOIN answers AS a ON a.id = first.answer_id
    JOIN answers AS b ON b.id = r.answer_id {LIVE}
    WHERE r.project_id = :project AND r.why = 'second' AND first.why = 'delegated'
    ORDER BY r.id DESC LIMIT :most
""")
MOST_PAIRS = 2_000


class SecondReadings(NamedTuple):
    """What the latest second readings of delegated cases say: how many, agreed, settled, right."""

    n: int
    agreed: int
    settled: int  # of a cluster, one case
    right: int  # first answers, of settled cases


def second_readings(transaction: Transaction) -> SecondReadings:
    """Count the latest cases that two people read because they were drawn for it."""
    rows = transaction.all(_PAIRS, project=transaction.project.id, most=MOST_PAIRS)
    agreed = sum(row.one == row.other for row in rows)
    first = {row.cluster or row.id: row for row in rows}  # the newest come first
    closed = [row for row in first.values() if row.state == "closed"]
    right = sum(row.one == row.truth for row in closed)
    return SecondReadings(len(rows), agreed, len(closed), right)


def whole_accuracy(
    share_read: float | None, monitor: dict[str, Any] | None, second: SecondReadings
) -> dict[str, float] | None:
    """Return how often the whole desk is right, automatic and read, with its interval.

    The accuracy of automatic decisions comes from audits, that of read ones from second readings,
    where two who agree are taken as right. Each part has an interval that holds however often one
    looks, at half the level; open audits count against the desk at its low end, and for it at the
    high one.

    Parameters
    ----------
    share_read : float or None
        The share of cases that experts read.
    monitor : dict or None
        The monitor's numbers: "counted", "counted_errors", "open".
    second : SecondReadings
        From `second_readings`.

    Returns
    -------
    dict or None
        "accuracy", "low" and "high"; None while one of the parts is not known.
    """
    if share_read is None:
        return None
    audits = monitor or dict.fromkeys(("counted_errors", "counted", "open"), 0.0)
    automatic = _bounds(audits["counted_errors"], audits["counted"], audits["open"])
    read = _bounds(second.settled - second.right, second.settled, 0)
    whole = dict.fromkeys(("accuracy", "low", "high"), 0.0)
    for share, part in ((1 - share_read, automatic), (share_read, read)):
        if share and part is None:
            return None
        whole = {name: whole[name] + share * value for name, value in (part or whole).items()}
    return whole


def _bounds(errors: float, counted: float, unknown: float) -> dict[str, float] | None:
    if not counted:
        return None
    total = counted + unknown
    # The mirror image of the lower bound: right and wrong change places.
    sums = [errors + unknown, counted - errors + unknown], [total, total]
    low, mirrored = accuracy_lower_bound(*sums, confidence_level=1 - LEVEL / 2)
    return {"accuracy": 1 - errors / counted, "low": float(low), "high": 1 - float(mirrored)}


def known_readings(transaction: Transaction) -> list[Any]:
    """Return the latest readings whose truth is known: key, name, why, label, truth."""
    rows = transaction.all(_KNOWN, project=transaction.project.id, most=MOST_READINGS)
    return [*{(row.name, row.cluster or (row.key,)): row for row in rows}.values()]


def readers_of(transaction: Transaction) -> list[dict[str, Any]]:
    """Return how good and how fast each reader is, by name.

    Returns
    -------
    list of dict
        "name"; "answers" of the last 30 days, "seconds" on average; "known", the readings whose
        truth is known, "golden" of them golden; "accuracy" with "low" and "high", an interval that
        holds however often one looks; "confusion", the counts of each answer by true class;
        "evidence" of erring more often than the others, and "finding", a sentence if that is
        enough. What is not known yet is None.
    """
    since = transaction.now - PACE_DAYS * 86_400 * SECOND
    latest = transaction.all(_PACE, project=transaction.project.id, since=since)
    pace = {row.name: row for row in latest}
    known = known_readings(transaction)
    quality = {reader.name: reader for reader in _quality(known)}
    classes = sorted({row.truth for row in known} | {row.label for row in known})
    return [
        {
            "name": name,
            "answers": pace[name].n if name in pace else 0,
            "seconds": pace[name].seconds if name in pace else None,
            "known": sum(row.name == name for row in known),
            "golden": sum(row.name == name and row.why == "golden" for row in known),
            **_shown(quality.get(name), [*quality.values()], classes),
        }
        for name in sorted({*pace, *(row.name for row in known)})
    ]


def _quality(known: list[Any]) -> tuple[Reader, ...]:
    if not known:
        return ()
    frame = {
        "case": [row.key for row in known],
        "reader": [row.name for row in known],
        "answer": [row.label for row in known],
    }
    truth = {row.key: row.truth for row in known}
    readings = Readings.from_frame(frame, labels=sorted({*frame["answer"], *truth.values()}))
    if max(frame["reader"].count(name) for name in readings.readers) < FEWEST_READINGS:
        return ()
    return readings.quality(truth, fewest_readings=FEWEST_READINGS)


def _shown(reader: Reader | None, all_readers: list[Reader], classes: list[str]) -> dict[str, Any]:
    if reader is None:
        return dict.fromkeys(("accuracy", "low", "high", "confusion", "evidence", "finding"))
    counts = {
        true: {answer: int(n) for answer, n in zip(classes, row, strict=True) if n}
        for true, row in zip(classes, reader.confusion, strict=True)
    }
    return {
        "accuracy": reader.accuracy.estimate,
        "low": reader.accuracy.low,
        "high": reader.accuracy.high,
        "confusion": {true: row for true, row in counts.items() if row},
        "evidence": reader.evidence,
        "finding": _finding(reader, all_readers),
    }


def _finding(reader: Reader, all_readers: list[Reader]) -> str | None:
    """Say that a reader errs more often than the others, once there is enough evidence."""
    if reader.evidence < NAMED_AT:
        return None
    others = [other for other in all_readers if other is not reader]
    n, wrong = reader.n_readings, round(reader.n_readings * (1 - reader.accuracy.estimate))
    theirs = sum(other.n_readings for other in others)
    right = sum(other.n_readings * other.accuracy.estimate for other in others)
    return (
        f"{reader.name} errs more often than the others: {wrong} of {n} readings were wrong "
        f"({100 * wrong / n:.0f} %), and {100 * (1 - right / theirs):.0f} % of theirs. "
        f"Chance alone would say so of 1 in {NAMED_AT:.0f} readers who are as good as the others."
    )
