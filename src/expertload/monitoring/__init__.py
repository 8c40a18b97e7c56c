"""Is the promise still kept? Tests that may be looked at after every case.

`AccuracyMonitor` watches a promised accuracy by audits of automatic decisions. Its verdicts hold
however often one looks, because its evidence is a bet that cannot be expected to win while the
promise is kept. `LoadMonitor` warns, without any labels, when new cases are not like those a policy
was made with, and `required_audits` says how many audits a fall takes to be found.
"""

from expertload.monitoring.bounds import accuracy_lower_bound, confirming_evidence
from expertload.monitoring.load import LoadMonitor
from expertload.monitoring.monitor import AccuracyMonitor
from expertload.monitoring.planning import RequiredAudits, required_audits
from expertload.monitoring.restarts import Capital, advance, evidence_path, start
from expertload.monitoring.verdict import History

__all__ = [
    "AccuracyMonitor",
    "Capital",
    "History",
    "LoadMonitor",
    "RequiredAudits",
    "accuracy_lower_bound",
    "advance",
    "confirming_evidence",
    "evidence_path",
    "required_audits",
    "start",
]
