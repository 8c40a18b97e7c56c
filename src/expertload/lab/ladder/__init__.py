"""Lowers the load on your own data step by step, and measures what each step gains."""

from expertload._check import needs_extra

with needs_extra("lab", "expertload.lab.ladder"):
    from expertload.lab.ladder.lowering import Narrator, lower_load
    from expertload.lab.ladder.numbers import (
        CertifiedLoad,
        StepNumbers,
        certified_load,
        measure_step,
    )
    from expertload.lab.ladder.outcome import LadderRow, LowerLoad, measure_ladder
    from expertload.lab.ladder.steps import STEPS, Answers, Climb, Network, Step, climb

__all__ = [
    "STEPS",
    "Answers",
    "CertifiedLoad",
    "Climb",
    "LadderRow",
    "LowerLoad",
    "Narrator",
    "Network",
    "Step",
    "StepNumbers",
    "certified_load",
    "climb",
    "lower_load",
    "measure_ladder",
    "measure_step",
]
