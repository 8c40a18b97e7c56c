"""Monitors that check whether a promise is still kept, valid however often you look.

`AccuracyMonitor` checks a promised accuracy with audits of automatic decisions. Its verdicts are
valid however often you look, because its evidence is a bet that is not expected to win while the
promise is kept. `LoadMonitor` needs no labels; it warns when new cases differ from those that a
policy was made with. `ChallengerMonitor` watches a second model in shadow and says when it may take
over; `certify_stream` certifies anew, as often as you like. `required_audits` computes how many
audits it takes to find a fall.
"""

from expertload.monitoring.accuracy import AccuracyMonitor, History
from expertload.monitoring.bets import (
    Capital,
    accuracy_bets,
    accuracy_lower_bound,
    advance,
    confirming_evidence,
    evidence_path,
    start,
)
from expertload.monitoring.challenger import ChallengerMonitor, certify_stream
from expertload.monitoring.load import LoadMonitor
from expertload.monitoring.planning import RequiredAudits, required_audits

__all__ = [
    "AccuracyMonitor",
    "Capital",
    "ChallengerMonitor",
    "History",
    "LoadMonitor",
    "RequiredAudits",
    "accuracy_bets",
    "accuracy_lower_bound",
    "advance",
    "certify_stream",
    "confirming_evidence",
    "evidence_path",
    "required_audits",
    "start",
]
