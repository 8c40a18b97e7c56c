"""Several targets at once: each has its own certified point, and all promises hold together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from expertload.operating_point.certification.certified_point import CertifiedPoint
from expertload.operating_point.origin import Origin
from expertload.operating_point.point import at_least

__all__ = ["CertifiedTargets"]


@dataclass(frozen=True, kw_only=True)
class CertifiedTargets(Mapping[float, CertifiedPoint]):
    """A mapping from target accuracies to their certified points, and one promise over all.

    Each point is tested at its share of the level, so you may choose among them after seeing the
    data. Save the chosen point.

    Attributes
    ----------
    points : dict from float to CertifiedPoint
        The point of each target, in ascending order.
    confidence_level : float
        The probability that all promises hold at once.
    origin : Origin
        The data, the model and the day.

    Examples
    --------
    >>> import numpy as np
    >>> from expertload.operating_point import certify
    >>> rng = np.random.default_rng(0)
    >>> y_proba = rng.beta(0.4, 0.4, size=2000)
    >>> y_true = rng.random(2000) < y_proba
    >>> points = certify(y_true, y_proba, target_accuracy=[0.9, 0.95])
    >>> [f"{target}: load {point.expert_load:.3f}" for target, point in points.items()]
    ['0.9: load 0.258', '0.95: load 0.552']
    """

    points: dict[float, CertifiedPoint]
    confidence_level: float
    origin: Origin = field(default_factory=Origin, compare=False, repr=False)

    def __getitem__(self, target: float) -> CertifiedPoint:
        return self.points[target]

    def __iter__(self) -> Iterator[float]:
        return iter(self.points)

    def __len__(self) -> int:
        return len(self.points)

    @property
    def certified(self) -> tuple[float, ...]:
        """The targets that have a threshold."""
        return tuple(target for target, point in self.items() if point.is_certified)

    @property
    def guarantee(self) -> str:
        """The promise for each target, in words."""
        level = f"With {at_least(self.confidence_level)} confidence, all of these hold at once."
        return "\n".join([level, *(point.guarantee for point in self.values())])

    def with_origin(self, origin: Origin) -> CertifiedTargets:
        """Return the same points with another origin."""
        points = {target: replace(point, origin=origin) for target, point in self.items()}
        return replace(self, points=points, origin=origin)

    def __str__(self) -> str:
        return "\n".join(f"{target:.6g}: {point}" for target, point in self.items())
