"""The options of the AUCOC losses, checked once for each combination."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache

from expertload._validation import check_minimum, check_option, incompatible_options_error
from expertload.losses.kde.bandwidth import NARROWEST, NARROWEST_IN_LOG_ODDS, RULES
from expertload.losses.kde.choice import METHODS

__all__ = ["AreaOptions", "checked_options"]


@dataclass(frozen=True, slots=True)
class AreaOptions:
    """How the area under the COC curve is estimated from a batch."""

    correctness: str = "target_probability"
    bandwidth: str | float = "scott"
    boundary: str = "none"
    estimator: str = "kde"
    method: str = "auto"
    sync_distributed: bool = False
    gradient: str = "both"
    smoothing: str = "probability"

    @property
    def in_log_odds(self) -> bool:
        """Whether confidences are smoothed in log odds; ranks need no smoothing."""
        return self.smoothing == "log_odds" and self.estimator == "kde"

    def describe(self, usual: AreaOptions | None = None) -> str:
        """Return the options that differ from the defaults."""
        usual = usual or AreaOptions()
        values = ((f.name, getattr(self, f.name), getattr(usual, f.name)) for f in fields(self))
        return ", ".join(f"{name}={value!r}" for name, value, default in values if value != default)


@lru_cache(maxsize=256)
def checked_options(options: AreaOptions) -> AreaOptions:
    """Return `options`, or raise `ParameterError`; cached, because losses are called often."""
    choices = {
        "correctness": ("target_probability", "hard"),
        "boundary": ("none", "reflect"),
        "estimator": ("kde", "rank"),
        "method": METHODS,
        "gradient": ("both", "correctness", "ranking"),
        "smoothing": ("probability", "log_odds"),
    }
    for name, allowed in choices.items():
        check_option(getattr(options, name), allowed, name)
    if isinstance(options.bandwidth, str):
        check_option(options.bandwidth, (*RULES, "a number"), "bandwidth")
    else:
        hint = "estimator='rank' is the limit of narrow kernels"
        narrowest = NARROWEST_IN_LOG_ODDS if options.in_log_odds else NARROWEST
        check_minimum(options.bandwidth, narrowest, "bandwidth", hint)
    if options.smoothing == "log_odds" and options.boundary == "reflect":
        raise incompatible_options_error(
            "smoothing='log_odds' and boundary='reflect'",
            "log odds have no ends to reflect at; pass smoothing='probability' too",
        )
    _refuse_nothing_to_learn(options)
    return options


def _refuse_nothing_to_learn(options: AreaOptions) -> None:
    """Raise if neither confidence nor correctness has a gradient."""
    through_ranking = options.estimator == "kde" and options.gradient != "correctness"
    through_correctness = options.correctness != "hard" and options.gradient != "ranking"
    if not (through_ranking or through_correctness):
        names = ("estimator", "correctness", "gradient")
        shown = [f"{name}={getattr(options, name)!r}" for name in names]
        raise incompatible_options_error(
            ", ".join(shown[:-1]) + f" and {shown[-1]}",
            "the gradient would always be zero, so nothing could be learned",
        )
