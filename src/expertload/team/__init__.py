"""Model and experts as a team: experts err too, most often on the cases sent to them.

The COC curve is about automatic decisions. `team_curve` is about all decisions, with what experts
really answered; a `Combiner` joins an expert's answer with the model's probabilities;
`certify_team` and `certify_not_worse` promise the team's accuracy on new cases; `Readings` hold
the answers of several readers, find a consensus, and tell how good each reader is.
"""

from expertload.team.combine import Combiner, load_combiner
from expertload.team.curve import (
    TeamCurve,
    TeamEvaluation,
    evaluate_team,
    team_accuracy,
    team_curve,
)
from expertload.team.promise import certify_not_worse, certify_team
from expertload.team.readers import Consensus, Reader, Readings, reader_evidence

__all__ = [
    "Combiner",
    "Consensus",
    "Reader",
    "Readings",
    "TeamCurve",
    "TeamEvaluation",
    "certify_not_worse",
    "certify_team",
    "evaluate_team",
    "load_combiner",
    "reader_evidence",
    "team_accuracy",
    "team_curve",
]
