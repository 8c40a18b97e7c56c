"""The state that all these metrics share: the cases themselves, or their counts on a grid.

The exact form keeps confidence and correctness of every case, and its sample index where given.
The binned form keeps two counters per cell of a fixed grid, so that its memory does not grow with
the data. Both merge over processes: lists are concatenated, counters are added.

The cells are narrow where it matters most, near confidence 1, where modern classifiers put most
cases and where cases weigh most in the area: the logarithm of ``1 - confidence + SOFTENING`` is cut
into equal parts. Cell edges are thresholds: what is known at an edge is known exactly, and only
what happens inside a cell is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities.data import dim_zero_cat

from expertload._typing import AnyArray, FloatArray
from expertload._validation import check_count, check_ignore_index, message
from expertload.exceptions import ParameterError
from expertload.tally import Bounds, Tally
from expertload.torch_metrics.cases import BatchCases, Reading, batch_cases

__all__ = ["CaseMetric", "NumberMetric", "Table"]

SOFTENING = 1e-4
LIST_STATES = ("confidence", "correct", "indices")


class Table(NamedTuple):
    """The arguments of the functions of `expertload.curve`."""

    correct: AnyArray
    confidence: FloatArray
    sample_weight: FloatArray | None


class CaseMetric(Metric):
    """Collects cases; subclasses compute a result from them, and `AUCOC` describes the options."""

    is_differentiable: bool = False
    full_state_update: bool = False

    confidence: list[Tensor]
    correct: list[Tensor]
    indices: list[Tensor]
    n_cases: Tensor
    n_correct: Tensor
    edges: Tensor

    def __init__(
        self,
        *,
        bins: int | None = None,
        logits: bool = False,
        ignore_index: int | None = None,
        validate_args: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.bins = None if bins is None else check_count(bins, "bins")
        ignored = check_ignore_index(ignore_index)
        self.reading = Reading(logits, ignored, validate_args)
        if self.bins is None:
            for name in LIST_STATES:
                self.add_state(name, default=[], dist_reduce_fx="cat")
        else:
            for name in ("n_cases", "n_correct"):
                counters = torch.zeros(self.bins, dtype=torch.long)
                self.add_state(name, default=counters, dist_reduce_fx="sum")
            self.register_buffer("edges", lower_edges(self.bins), persistent=False)

    def update(
        self,
        preds: Tensor,
        target: Tensor,
        *,
        valid: Tensor | None = None,
        indices: Tensor | None = None,
    ) -> None:
        """Add a batch.

        Parameters
        ----------
        preds : Tensor of shape (n, classes), (n, classes, d1, ...) or (n,)
            Probabilities, or logits if the metric was told so. One column is class 1's.
        target : Tensor of shape (n,) or (n, d1, ...)
            Class numbers.
        valid : Tensor of bool of shape (n,) or of that of target, optional
            Rows to count. False leaves a row out, such as one that a distributed sampler repeats
            to fill its last batch (`not_padding` tells which).
        indices : Tensor of int of shape (n,), optional
            The number of each sample in its data set. A sample that comes more than once, in
            this process or another, counts once. Give it in every update or in none; not
            available with `bins`.
        """
        if indices is not None and self.bins is not None:
            raise ParameterError(
                "'indices' needs the exact form: with bins, samples are "
                "counted and forgotten, so repeats cannot be found. Hint: mark the padding of a "
                "distributed sampler with valid=..., see expertload.torch_metrics.not_padding."
            )
        cases = batch_cases(preds, target, valid, indices, reading=self.reading)
        if self.bins is None:
            self._keep(cases)
        else:
            self._count(cases)

    def _keep(self, cases: BatchCases) -> None:
        self.confidence.append(cases.confidence.to(self._state_dtypes()["confidence"]))
        self.correct.append(cases.correct)
        if cases.indices is not None:
            self.indices.append(cases.indices.long())

    def _count(self, cases: BatchCases) -> None:
        cell = cell_of(cases.confidence, self.edges)
        self.n_cases += torch.bincount(cell, minlength=len(self.edges))
        self.n_correct += torch.bincount(cell[cases.correct], minlength=len(self.edges))

    def _table(self) -> Table | None:
        """Return the cases so far; None if there are none."""
        table = self._kept_table() if self.bins is None else self._counted_table()
        return table if len(table.correct) else None

    def _kept_table(self) -> Table:
        confidence, correct, indices = (self._joined(name) for name in LIST_STATES)
        _check_all_or_none_indexed(len(indices), len(correct))
        if len(indices):
            _, first = np.unique(indices, return_index=True)
            confidence, correct = confidence[first], correct[first]
        return Table(correct, confidence, None)

    def _counted_table(self) -> Table:
        filled = self.n_cases > 0
        n_cases = self.n_cases[filled].cpu().numpy().astype(np.float64)
        n_correct = self.n_correct[filled].cpu().numpy().astype(np.float64)
        return Table(n_correct / n_cases, self.edges[filled].cpu().numpy(), n_cases)

    def _joined(self, name: str) -> AnyArray:
        pieces = getattr(self, name)
        if isinstance(pieces, list) and not pieces:
            return np.empty(0)
        joined: AnyArray = dim_zero_cat(pieces).cpu().numpy()
        return joined

    def _state_dtypes(self) -> dict[str, torch.dtype]:
        # Double precision holds any confidence exactly, so batches of any precision can be joined.
        wide = torch.float32 if self.device.type == "mps" else torch.float64
        return {"confidence": wide, "correct": torch.bool, "indices": torch.long}

    def _sync_dist(self, *args: Any, **kwargs: Any) -> None:
        """Gather the state; a process without cases contributes empty lists of the right type."""
        if self.bins is None:
            for name, dtype in self._state_dtypes().items():
                if not len(getattr(self, name)):
                    setattr(self, name, [torch.empty(0, dtype=dtype, device=self.device)])
        super()._sync_dist(*args, **kwargs)

    @contextmanager
    def _over_all_processes(self) -> Iterator[None]:
        """Gather the state for methods other than `compute`, which gathers by itself."""
        with self.sync_context(
            dist_sync_fn=self.dist_sync_fn,
            should_sync=self._to_sync and not self._is_synced,
            should_unsync=True,
        ):
            yield

    def _tensor(self, values: float | FloatArray) -> Tensor:
        """Return a result on the metric's device."""
        dtype = self._state_dtypes()["confidence"]
        return torch.as_tensor(np.array(values), dtype=dtype, device=self.device)


class NumberMetric(CaseMetric):
    """A metric that is one number of the cases; subclasses compute it."""

    plot_lower_bound: float = 0.0
    plot_upper_bound: float = 1.0

    def _number(self, table: Table) -> float:
        """Return the number of some cases."""
        raise NotImplementedError

    def _number_bounds(self, cells: Tally) -> Bounds:
        """Return the bounds of the number, if only the counts of each cell are known."""
        raise NotImplementedError

    def compute(self) -> Tensor:
        """Compute the number for all cases so far; NaN if there are none."""
        table = self._table()
        return self._tensor(float("nan") if table is None else self._number(table))

    def bounds(self) -> tuple[float, float]:
        """Return the smallest and the largest value that the cases can have.

        Both are the value itself without `bins`. With them, no tighter bounds follow from the
        counts: each is reached by some order of the cases in every cell.
        """
        with self._over_all_processes():
            table = self._table()
        if table is None:
            return float("nan"), float("nan")
        if table.sample_weight is None:
            value = self._number(table)
            return value, value
        n_correct = np.rint(table.correct * table.sample_weight)
        low, high = self._number_bounds(Tally(table.confidence, table.sample_weight, n_correct))
        return low, high

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Plot one value, or a list of them, over time."""
        return self._plot(val, ax)


def lower_edges(n_cells: int) -> Tensor:
    """Lower edges of the cells, the first 0; a case belongs to the last edge it reaches.

    They are rounded to single precision, so that comparing a confidence with an edge comes out
    the same in any precision.
    """
    steps = torch.arange(n_cells, dtype=torch.float64) / n_cells
    shrinking = (1 + SOFTENING) * (SOFTENING / (1 + SOFTENING)) ** steps
    return (1 + SOFTENING - shrinking).clamp_min(0).to(torch.float32)


def cell_of(confidence: Tensor, edges: Tensor) -> Tensor:
    """Number of the cell that each confidence is in."""
    return torch.bucketize(confidence, edges.to(confidence), right=True) - 1


def _check_all_or_none_indexed(n_indices: int, n_cases: int) -> None:
    """Raise if only some of the updates came with sample indices."""
    if n_indices not in (0, n_cases):
        raise ParameterError(
            message(
                "indices",
                "must be given in every update or in none",
                f"{n_indices} indices for {n_cases} cases",
            )
        )
