"""What the audits say, in plain words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expertload.operating_point.point import quantity

if TYPE_CHECKING:
    from expertload.monitoring.verdict import Verdict

__all__ = ["summary"]


def summary(monitor: Verdict) -> str:
    """Return the state, what it rests on, and what would change it.

    Examples
    --------
    >>> from expertload.monitoring import AccuracyMonitor
    >>> from expertload.monitoring.words import summary
    >>> print(summary(AccuracyMonitor(target_accuracy=0.9)))
    Not refuted: no audits yet, so nothing is known about an accuracy of 0.9.
    """
    if monitor.n_audits == 0:
        return (
            "Not refuted: no audits yet, so nothing is known about an accuracy of "
            f"{monitor.target_accuracy:.6g}."
        )
    return " ".join([_state(monitor), _bound(monitor)])


def _state(monitor: Verdict) -> str:
    target, seen = f"{monitor.target_accuracy:.6g}", _audits(monitor)
    if monitor.state == "refuted":
        return (
            f"Refuted: the accuracy of automatic decisions has been below {target}, as audit "
            f"{monitor.refuted_at} showed (evidence reached {monitor.highest_evidence:.3g}). "
            f"There were {seen}. Delegate every case until the policy is certified again on "
            "fresh cases."
        )
    if monitor.state == "confirmed":
        return f"Confirmed: an accuracy of {target} is reached on average, after {seen}."
    return f"Not refuted: an accuracy of {target} is neither shown nor ruled out after {seen}."


def _audits(monitor: Verdict) -> str:
    some = f"{monitor.n_audits} audits" if monitor.n_audits != 1 else "1 audit"
    open_ = f" and {monitor.n_open} still open" if monitor.n_open else ""
    return f"{some}, {quantity(monitor.n_errors)} of them wrong{open_}"


def _bound(monitor: Verdict) -> str:
    level = f"(confidence level {monitor.confidence_level:.6g})"
    bound = f"On average so far it is at least {_below(monitor.lower_bound)}"
    if monitor.state == "refuted":
        return f"{bound} {level}."
    warning = " Audit more cases." if monitor.warns else ""
    return (
        f"{bound}; evidence against it is {monitor.evidence:.3g}, and "
        f"{monitor.alarm_evidence:.6g} would refute it {level}.{warning}"
    )


def _below(bound: float) -> str:
    """Write a lower bound, rounded down: what is said must hold too."""
    return f"{int(bound * 10_000) / 10_000:g}"
