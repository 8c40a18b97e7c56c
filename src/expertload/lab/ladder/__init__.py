"""Lowers the load on your own data step by step, and measures what each step gains."""

from expertload._validation import needs_extra

with needs_extra("lab", "expertload.lab.ladder"):
    from expertload.lab.ladder.answers import Answers, Questions
    from expertload.lab.ladder.certified import CertifiedLoad, certified_load
    from expertload.lab.ladder.climbing import lower_load
    from expertload.lab.ladder.numbers import StepNumbers, measure_step
    from expertload.lab.ladder.outcome import LadderRow, LowerLoad, measure_ladder
    from expertload.lab.ladder.steps import STEPS, Ladder, Network, Step, climb

__all__ = [
    "STEPS",
    "Answers",
    "CertifiedLoad",
    "Ladder",
    "LadderRow",
    "LowerLoad",
    "Network",
    "Questions",
    "Step",
    "StepNumbers",
    "certified_load",
    "climb",
    "lower_load",
    "measure_ladder",
    "measure_step",
]
