"""Graded cases: a gambler bets against the claim that the accuracy misses the target.

A graded case has a loss x from 0 to 1, one minus its grade. The target allows a mean loss of r.
Stake a share l of the capital on each accepted case: it is multiplied by 1 - l (x - r), which is
never negative for l < 1 / (1 - r). If the mean loss is r or more, the capital does not grow on
average, so it exceeds 1 / p with probability p at most (Markov): one over it is a p-value. Several
shares are staked side by side, and the mean of their capitals counts. A large share grows fast if
losses vary little; a small one is safe if they are all or nothing. The capital does not depend on
the order of the cases.

Beside the Hoeffding-Bentkus bound that was used before, the share of draws that pass a test of 400
cases with 30 % less loss than a target of 0.95 allows (level 0.05):

============================================  =================  =======
grades                                        Hoeffding-Bentkus  betting
============================================  =================  =======
beta distributed, few near 0                  0.00               0.85
beta distributed, some near 0                 0.00               0.57
0, 0.5 or 1                                   0.07               0.12
all or nothing, but for a hundredth           0.14               0.06
============================================  =================  =======

Betting is weaker only for grades that are nearly all 0 or 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from expertload._cases import Cases
from expertload._typing import FloatArray, IntArray

__all__ = ["Grades"]

# Shares of the capital that are staked in parallel, in units of the largest possible share.
SHARES = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9)


def stakes(target: float) -> FloatArray:
    """Return the shares staked, for losses whose mean the target allows to be 1 - target."""
    return np.array(SHARES) / target


@dataclass(frozen=True, eq=False)
class Grades:
    """Losses from the most confident case down, and where the cases of each threshold end.

    Attributes
    ----------
    loss : ndarray of shape (n_cases,)
        One minus the grade.
    ends : ndarray of int, shape (n_thresholds,)
        The number of cases that each distinct confidence accepts, strict to loose.
    """

    loss: FloatArray
    ends: IntArray

    @classmethod
    def from_cases(cls, cases: Cases) -> Grades:
        """Sort graded cases."""
        order = np.argsort(-cases.confidence, kind="stable")
        confidence = cases.confidence[order]
        last = np.append(confidence[1:] != confidence[:-1], True)
        return cls(1.0 - cases.correct[order], np.flatnonzero(last) + 1)

    def log_capital(
        self, target: float, *, times: float = 1.0, all_cases: bool = False
    ) -> FloatArray:
        """Return the logarithm of the capital at each distinct confidence, strict to loose.

        Parameters
        ----------
        target : float
            The accuracy to show.
        times : float
            A factor by which the number of cases is multiplied.
        all_cases : bool
            Whether delegated cases also count, as cases without a loss.
        """
        shares = stakes(target)
        total = np.full(len(self.ends), -np.inf)
        for share in shares:
            logs = np.cumsum(np.log1p(-share * (self.loss - (1 - target))))[self.ends - 1]
            if all_cases:
                logs += (len(self.loss) - self.ends) * math.log1p(share * (1 - target))
            np.logaddexp(total, times * logs, out=total)
        capital: FloatArray = total - math.log(len(shares))
        return capital


def p_values_of_capital(log_capital: FloatArray) -> FloatArray:
    """Return one over the capital, at most 1."""
    values: FloatArray = np.exp(-np.maximum(log_capital, 0.0))
    return values


def least_graded_cases(target: float, error_level: float) -> int:
    """The fewest cases, all without a loss, whose capital is enough."""
    return graded_cases_at_loss(0.0, target, error_level)


def graded_cases_at_loss(loss: float, target: float, error_level: float) -> int:
    """The fewest cases, each with this loss, whose capital is enough; less than the target's."""
    growth = np.log1p(stakes(target) * (1 - target - loss))
    wanted = math.log(len(growth) / error_level)
    short, enough = 0, math.ceil(wanted / float(growth.max()))  # the largest share alone is enough
    while enough - short > 1:
        middle = (short + enough) // 2
        rich = bool(np.exp(middle * growth).sum() >= math.exp(wanted))
        short, enough = (short, middle) if rich else (middle, enough)
    return enough
