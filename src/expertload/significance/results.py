"""The result types of this package."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Comparison", "Interval"]


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A number with its standard error and confidence interval.

    Attributes
    ----------
    estimate : float
        The number on the data given.
    low, high : float
        Ends of the confidence interval.
    confidence_level : float
        The share of samples whose interval holds the true value.
    standard_error : float
        Standard deviation of the estimate over samples of cases.
    """

    estimate: float
    low: float
    high: float
    confidence_level: float
    standard_error: float

    def __str__(self) -> str:
        return (
            f"{self.estimate:.4f} ({100 * self.confidence_level:g} % interval "
            f"{self.low:.4f} to {self.high:.4f})"
        )


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The difference between two models on the same cases, and whether chance explains it.

    Attributes
    ----------
    difference : float
        The first model's number minus the second's.
    p_value : float
        Two-sided: how often a difference this large arises by chance.
    adjusted_p_value : float
        The same where `n_comparisons` are made at once, by Holm's procedure: the chance that any
        of them finds a difference by chance stays below the level.
    n_comparisons : int
        How many comparisons this one was made with, itself included.
    low, high : float
        Ends of the confidence interval around the difference.
    confidence_level : float
        The level of that interval.
    standard_error : float
        Standard deviation of the difference over samples of cases.
    """

    difference: float
    p_value: float
    adjusted_p_value: float
    n_comparisons: int
    low: float
    high: float
    confidence_level: float
    standard_error: float

    def __str__(self) -> str:
        adjusted = f" ({self.adjusted_p_value:.2g} adjusted for {self.n_comparisons} comparisons)"
        return (
            f"difference {self.difference:.4f} ({100 * self.confidence_level:g} % interval "
            f"{self.low:.4f} to {self.high:.4f}), p = {self.p_value:.2g}"
            f"{adjusted if self.n_comparisons > 1 else ''}"
        )
