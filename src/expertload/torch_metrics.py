"""Metrics for training loops: the COC curve and its numbers as torchmetrics classes.

The exact form of a metric keeps confidence and correctness of every case. The binned form keeps two
counters per cell of a fixed grid, so that its memory does not grow with the data. Both merge over
processes: lists are concatenated, counters are added.

Cells are narrow near confidence 1, where most cases are and where they weigh most in the area: the
logarithm of ``1 - confidence + SOFTENING`` is cut into equal parts. Cell edges are thresholds: what
is known at an edge is known exactly, and only what happens inside a cell is lost.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from expertload._check import (
    ROW_SUM_TOLERANCE,
    check_count,
    check_fraction,
    check_ignore_index,
    check_probabilities,
    label_range_error,
    message,
    needs_extra,
)
from expertload._typing import BoolArray, FloatArray
from expertload.cases import Cases
from expertload.curve import COCCurve
from expertload.display import COCDisplay
from expertload.exceptions import DataTypeError, ShapeError
from expertload.tally import Bounds, Tally, area_bounds, load_bounds

with needs_extra("torch", "expertload.torch_metrics"):
    import torch
    from torch import Tensor
    from torch.utils.data import DistributedSampler
    from torchmetrics import Metric
    from torchmetrics.utilities.data import dim_zero_cat

    from expertload.losses.base import warn_of_probabilities

__all__ = ["AUCOC", "COC", "LoadAtAccuracy", "not_padding"]

SOFTENING = 1e-4
# What the tensors of a batch must hold, besides the predictions.
KINDS = {"target": ("int", "bool"), "valid": ("bool",)}


class _CaseMetric(Metric):
    """Collects cases; subclasses compute a result from them, and `AUCOC` describes the options."""

    is_differentiable: bool = False
    full_state_update: bool = False

    confidence: list[Tensor]
    correct: list[Tensor]
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
        self.logits = logits
        self.ignore_index = check_ignore_index(ignore_index)
        self.validate_args = validate_args
        if self.bins is None:
            for name in self._list_dtypes():
                self.add_state(name, default=[], dist_reduce_fx="cat")
        else:
            for name in ("n_cases", "n_correct"):
                counters = torch.zeros(self.bins, dtype=torch.long)
                self.add_state(name, default=counters, dist_reduce_fx="sum")
            self.register_buffer("edges", lower_edges(self.bins), persistent=False)

    def update(self, preds: Tensor, target: Tensor, *, valid: Tensor | None = None) -> None:
        """Add a batch.

        Parameters
        ----------
        preds : Tensor of shape (n, classes), (n, classes, d1, ...) or (n,)
            Probabilities, or logits if the metric has ``logits=True``. One column is class 1's.
        target : Tensor of shape (n,) or (n, d1, ...)
            Class numbers.
        valid : Tensor of bool of shape (n,) or of that of target, optional
            Rows to count; see `not_padding`.
        """
        batch = self._counted(preds=preds, target=target, valid=valid)
        predicted, confidence = _top_label(batch["preds"])
        correct = predicted == batch["target"]
        if self.bins is None:
            self.confidence.append(confidence.to(self._list_dtypes()["confidence"]))
            self.correct.append(correct)
        else:
            cell = cell_of(confidence, self.edges)
            self.n_cases += torch.bincount(cell, minlength=self.bins)
            self.n_correct += torch.bincount(cell[correct], minlength=self.bins)

    def _counted(self, **given: Any) -> dict[str, Tensor]:
        """Return the rows of a batch that count, with probabilities as predictions."""
        device = _tensor(given["preds"], "preds").device
        batch = {
            name: _tensor(value, name).to(device)
            for name, value in given.items()
            if value is not None
        }
        batch = _in_rows(batch)
        _check_layout(batch)
        if self.logits:
            warn_of_probabilities(batch["preds"])
            batch["preds"] = _probabilities(batch["preds"])
        mask = batch.pop("valid", None)
        if self.ignore_index is not None:
            labelled = batch["target"] != self.ignore_index
            mask = labelled if mask is None else mask & labelled
        if mask is not None:
            batch = {name: tensor[mask] for name, tensor in batch.items()}
        if self.validate_args:
            _check_values(batch["preds"], batch["target"])
        return batch

    def _cases(self) -> Cases | None:
        """Return the cases so far, those of one cell as one of their weight; None if none."""
        if self.bins is None:
            pieces = (self.confidence, self.correct)  # each one tensor after a gathering
            if not all(map(len, pieces)):
                return None
            confidence, correct = (dim_zero_cat(own).cpu().numpy() for own in pieces)
            return Cases.from_correctness(correct, confidence) if len(correct) else None
        filled = self.n_cases > 0
        if not filled.any():
            return None
        n_cases, n_correct, edges = (
            values[filled].cpu().numpy() for values in (self.n_cases, self.n_correct, self.edges)
        )
        return Cases.from_correctness(n_correct / n_cases, edges, sample_weight=n_cases)

    def _list_dtypes(self) -> dict[str, torch.dtype]:
        # Double precision holds any confidence exactly, so batches of any precision can be joined.
        wide = torch.float32 if self.device.type == "mps" else torch.float64
        return {"confidence": wide, "correct": torch.bool}

    def _sync_dist(self, *args: Any, **kwargs: Any) -> None:
        """Gather the state; a process without cases has empty lists of the right type."""
        if self.bins is None:
            for name, dtype in self._list_dtypes().items():
                if not len(getattr(self, name)):
                    setattr(self, name, [torch.empty(0, dtype=dtype, device=self.device)])
        super()._sync_dist(*args, **kwargs)

    def _result(self, values: float | FloatArray) -> Tensor:
        dtype = self._list_dtypes()["confidence"]
        return torch.as_tensor(np.array(values), dtype=dtype, device=self.device)


class _NumberMetric(_CaseMetric):
    """A metric that is one number of the cases; subclasses compute it and its bounds."""

    plot_lower_bound: float = 0.0
    plot_upper_bound: float = 1.0

    def _number(self, cases: Cases) -> float:
        raise NotImplementedError

    def _number_bounds(self, cells: Tally, tied: BoolArray) -> Bounds:
        raise NotImplementedError

    def compute(self) -> Tensor:
        """Compute the number for all cases so far; NaN if there are none."""
        cases = self._cases()
        return self._result(float("nan") if cases is None else self._number(cases))

    def bounds(self) -> tuple[float, float]:
        """Return the smallest and largest value that `bins` allow; without them, one value."""
        # Unlike `compute`, no other method gathers the state by itself.
        should_sync = self._to_sync and not self._is_synced
        with self.sync_context(dist_sync_fn=self.dist_sync_fn, should_sync=should_sync):
            cases = self._cases()
        if cases is None:
            return float("nan"), float("nan")
        if cases.weight is None:
            value = self._number(cases)
            return value, value
        n_correct = np.rint(cases.correct * cases.weight)
        cells = Tally(cases.confidence, cases.weight, n_correct)
        low, high = self._number_bounds(cells, np.zeros(len(n_correct), dtype=np.bool_))
        return low, high

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        return self._plot(val, ax)


class AUCOC(_NumberMetric):
    """Area under the COC curve, as `expertload.aucoc_score` computes it; NaN without cases.

    Parameters
    ----------
    bins : int, optional
        Count cases on a fixed grid of confidences with this many cells, and treat those of one
        cell as equally confident. `bounds` says between which values the exact area lies.
    logits : bool, default=False
        Whether `preds` are logits; never guessed.
    ignore_index : int, optional
        Cases with this target do not count.
    validate_args : bool, default=True
        Whether to check the values of every batch, which takes one wait for the device.
    **kwargs
        Options of ``torchmetrics.Metric``.

    Examples
    --------
    >>> import torch
    >>> from expertload.torch_metrics import AUCOC
    >>> metric = AUCOC()
    >>> metric.update(torch.tensor([[0.9, 0.1], [0.3, 0.7]]), torch.tensor([0, 1]))
    >>> metric.update(torch.tensor([[0.6, 0.4], [0.8, 0.2]]), torch.tensor([1, 0]))
    >>> print(f"{metric.compute():.4f}")
    0.9658
    """

    higher_is_better: bool = True

    def _number(self, cases: Cases) -> float:
        return cases.aucoc()

    def _number_bounds(self, cells: Tally, tied: BoolArray) -> Bounds:
        return area_bounds(cells, tied)


class LoadAtAccuracy(_NumberMetric):
    """Smallest expert load at which the accuracy reaches a target; lower is better.

    As `expertload.load_at_accuracy` computes it: 1 if no threshold reaches the target, and NaN if
    there are no cases.

    Parameters
    ----------
    target_accuracy : float
        The accuracy wanted among the accepted cases, in [0, 1].
    bins : int, optional
        As in `AUCOC`; thresholds are then the edges of cells. The load is never too low, and
        `bounds` says how low the exact one may be.
    logits, ignore_index, validate_args, **kwargs
        As in `AUCOC`.

    Examples
    --------
    >>> import torch
    >>> from expertload.torch_metrics import LoadAtAccuracy
    >>> metric = LoadAtAccuracy(0.95)
    >>> proba = torch.tensor([[0.9, 0.1], [0.3, 0.7], [0.6, 0.4], [0.8, 0.2]])
    >>> metric.update(proba, torch.tensor([0, 1, 1, 0]))
    >>> print(f"{metric.compute():.2f}")
    0.25
    """

    higher_is_better: bool = False

    def __init__(self, target_accuracy: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.target_accuracy = check_fraction(target_accuracy, "target_accuracy")

    def _number(self, cases: Cases) -> float:
        return cases.load_at_accuracy(self.target_accuracy)

    def _number_bounds(self, cells: Tally, tied: BoolArray) -> Bounds:
        return load_bounds(cells, tied, self.target_accuracy, is_counted=True)


class COC(_CaseMetric):
    """The COC curve: accuracy among the accepted cases against expert load.

    `compute` returns an `expertload.COCCurve` of tensors, empty where there are no cases.

    Parameters
    ----------
    bins : int, optional
        As in `AUCOC`; the curve then has one point per cell with cases, which is a point of the
        full curve.
    logits, ignore_index, validate_args, **kwargs
        As in `AUCOC`.

    Examples
    --------
    >>> import torch
    >>> from expertload.torch_metrics import COC
    >>> metric = COC()
    >>> proba = torch.tensor([[0.9, 0.1], [0.3, 0.7], [0.6, 0.4], [0.8, 0.2]])
    >>> metric.update(proba, torch.tensor([0, 1, 1, 0]))
    >>> metric.compute().accuracy
    tensor([0.7500, 1.0000, 1.0000, 1.0000], dtype=torch.float64)
    """

    higher_is_better: bool | None = None

    def compute(self) -> COCCurve:
        """Compute the curve of all cases so far."""
        cases = self._cases()
        curve = COCCurve(*[np.empty(0)] * 3) if cases is None else cases.curve()
        tensors: list[Any] = [self._result(values) for values in curve]
        return COCCurve(*tensors)

    def _wrap_compute(self, compute: Callable[..., Any]) -> Callable[..., Any]:
        """Undo that torchmetrics makes scalars of a curve of one point."""
        wrapped = super()._wrap_compute(compute)

        @functools.wraps(wrapped)
        def curve(*args: Any, **kwargs: Any) -> COCCurve:
            return COCCurve(*(values.reshape(-1) for values in wrapped(*args, **kwargs)))

        return curve

    def plot(self, curve: COCCurve | None = None, ax: Any = None) -> Any:
        """Draw a curve (that of all cases so far by default) on axes; return figure and axes."""
        curve = self.compute() if curve is None else curve
        expert_load, accuracy, _ = (torch.as_tensor(values).cpu().numpy() for values in curve)
        display = COCDisplay(expert_load=expert_load, accuracy=accuracy).plot(ax)
        return display.figure_, display.ax_


def not_padding(sampler: DistributedSampler[Any]) -> Tensor:
    """Mark the samples of this process that are not repeats.

    A ``DistributedSampler`` gives every process the same number of samples, and repeats some of
    the first ones if the data set does not divide evenly. Metrics would count these twice.

    Parameters
    ----------
    sampler : DistributedSampler
        As in the data loader; shuffled or not.

    Returns
    -------
    Tensor of bool of shape (len(sampler),)
        In the order of the loader: slice it batch by batch and pass it as ``valid``.

    Examples
    --------
    Five samples on two processes are three each; the second process repeats one:

    >>> from torch.utils.data import DistributedSampler
    >>> from expertload.torch_metrics import not_padding
    >>> not_padding(DistributedSampler(range(5), num_replicas=2, rank=1))
    tensor([ True,  True, False])
    """
    if not hasattr(sampler, "num_replicas"):
        got = f"a {type(sampler).__name__}"
        hint = "other samplers repeat nothing: leave out valid"
        raise DataTypeError(message("sampler", "must be a DistributedSampler", got, hint))
    # The sampler deals out the (shuffled) data set like cards, and then starts again.
    position = torch.arange(len(sampler)) * sampler.num_replicas + sampler.rank
    n_samples = len(sampler.dataset)  # type: ignore[arg-type]
    return torch.lt(position, n_samples)


def lower_edges(n_cells: int) -> Tensor:
    """Return the lower edges of the cells; a case belongs to the last edge it reaches."""
    # In single precision, so that comparing a confidence with an edge is the same in any precision.
    steps = torch.arange(n_cells, dtype=torch.float64) / n_cells
    shrinking = (1 + SOFTENING) * (SOFTENING / (1 + SOFTENING)) ** steps
    return (1 + SOFTENING - shrinking).clamp_min(0).to(torch.float32)


def cell_of(confidence: Tensor, edges: Tensor) -> Tensor:
    return torch.bucketize(confidence, edges.to(confidence), right=True) - 1


# ------------------------------------------------------------------ reading a batch


def _tensor(value: Any, name: str) -> Tensor:
    try:
        return value if isinstance(value, Tensor) else torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        got = f"a {type(value).__name__}"
        raise DataTypeError(message(name, "must be a tensor", got)) from error


def _in_rows(batch: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return dense predictions (n, classes, d1, ...) as rows, one per position."""
    preds, target = batch["preds"], batch["target"]
    if preds.ndim < 3 or target.shape != preds.shape[:1] + preds.shape[2:]:
        return batch
    rows = {"preds": preds.movedim(1, -1).flatten(0, -2), "target": target.flatten()}
    if "valid" in batch:
        valid = batch["valid"]
        if valid.shape == target.shape[:1]:  # a sample counts with all of its positions
            valid = valid.view(-1, *[1] * (target.ndim - 1)).expand(target.shape)
        rows["valid"] = valid.flatten() if valid.shape == target.shape else valid
    return rows


def _check_layout(batch: dict[str, Tensor]) -> None:
    """Raise unless `preds`, `target` and, where given, `valid` fit together."""
    preds, shape = batch["preds"], tuple(batch["preds"].shape)
    if not preds.is_floating_point():
        hint = "pass probabilities, not predicted classes"
        got = f"{preds.dtype} values"
        raise DataTypeError(message("preds", "must hold probabilities", got, hint))
    if preds.ndim not in (1, 2):
        wanted = "must have shape (n, classes, ...), or (n,) for the probability of class 1"
        of_target = tuple(batch["target"].shape)
        hint = f"target, of shape {of_target}, must have the same without the second axis"
        raise ShapeError(message("preds", wanted, f"shape {shape}", hint))
    for name, kinds in KINDS.items():
        if name not in batch:
            continue
        if batch[name].shape != shape[:1]:
            wanted = f"must have shape {shape[:1]}, one value per row of preds"
            raise ShapeError(message(name, wanted, f"shape {tuple(batch[name].shape)}"))
        if not any(kind in str(batch[name].dtype) for kind in kinds):
            kind, cast = ("booleans", "bool") if name == "valid" else ("whole numbers", "long")
            got, hint = f"{batch[name].dtype} values", f"pass {name}.{cast}()"
            raise DataTypeError(message(name, f"must hold {kind}", got, hint))


def _probabilities(logits: Tensor) -> Tensor:
    """Softmax over the classes; the sigmoid of a single column."""
    wide = logits.detach().to(torch.promote_types(logits.dtype, torch.float32))
    single = wide.ndim == 1 or wide.shape[1] == 1
    return wide.sigmoid() if single else wide.softmax(1)


def _check_values(preds: Tensor, target: Tensor) -> None:
    """Raise for values out of range, after one check with one wait for the device."""
    if target.numel() == 0:
        return
    n_classes = 2 if preds.ndim == 1 else max(preds.shape[1], 2)
    fine = (preds.amin() >= 0) & (preds.amax() <= 1)
    fine &= (target.amin() >= 0) & (target.amax() < n_classes)
    if preds.ndim == 2 and preds.shape[1] > 1:
        fine &= (preds.sum(1, dtype=torch.float32) - 1).abs().amax() <= ROW_SUM_TOLERANCE
    if bool(fine):
        return
    softmax = "pass logits=True to the metric, or preds.softmax(dim=1)"
    check_probabilities(preds, "preds", for_logits=softmax)
    low, high = int(target.min()), int(target.max())
    if low < 0 or high >= n_classes:
        marker = low if low < 0 else high
        hint = f"leave out rows without a label: ignore_index={marker} in the metric, or valid=..."
        raise label_range_error(low, high, n_classes, hint)


def _top_label(preds: Tensor) -> tuple[Tensor, Tensor]:
    """Predicted class and its probability; among equals class 0 wins, as in the whole library."""
    scores = preds.detach().to(torch.promote_types(preds.dtype, torch.float32))
    if scores.ndim == 2 and scores.shape[1] == 1:
        scores = scores[:, 0]
    if scores.ndim == 1:
        scores = torch.stack([1 - scores, scores], dim=1)
    confidence, predicted = scores.max(dim=1)
    return predicted, confidence
