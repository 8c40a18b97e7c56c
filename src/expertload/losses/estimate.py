"""Estimates the area under the COC curve of a batch, in one process or several.

The area is smoothed by a kernel (``kde.area``), or taken from ranks, which is what the smoothed
area becomes when the kernel is infinitely narrow: AUCOC = E[v * -ln(1 - F(r))], F the distribution
of confidences and v the graded correctness. On a batch, a sample (or a group of equal confidences)
covers the loads from F_below to F_upto, so its weight is the mean of -ln(1 - F) there, the integral
of which is Q(u) = u + (1 - u) ln(1 - u). This is `expertload.aucoc_score` on a batch. Ranks do not
change under a small change of confidence, so the gradient by confidence is zero, and only v is
learned.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
import torch.distributed as dist

from expertload.losses.kde.area import (
    PROBABILITIES,
    REAL_LINE,
    Area,
    Samples,
    smoothed_area,
    tied_area,
)
from expertload.losses.kde.array_namespace import (
    Array,
    at_least,
    namespace,
    on_host,
    sorted_values,
)
from expertload.losses.kde.bandwidth import kernel_width
from expertload.losses.kde.choice import choose_sums
from expertload.losses.options import AreaOptions

__all__ = ["Batch", "Estimate", "estimate_areas"]


class Batch(NamedTuple):
    """The input of an AUCOC loss: arrays of one number per sample, in working precision.

    `keep` marks the samples that count, None if all do. `resolution` is the spacing of floating
    point numbers near one in the precision the confidences were computed in.
    """

    confidence: Array
    values: tuple[Array, ...]
    keep: Array | None
    resolution: float


class Estimate(NamedTuple):
    """One area for each kind of values, and whether the batch was empty in all processes."""

    areas: tuple[Area, ...]
    empty: bool | Array


def estimate_areas(batch: Batch, options: AreaOptions) -> Estimate:
    """Estimate the area for each of the batch's values.

    Gradients are those of this process's samples. Under `sync_distributed` they are multiplied by
    the number of processes, because data-parallel training averages gradients over processes.
    """
    with np.errstate(all="ignore"):  # NaN logits are passed on without a warning, as in torch
        if batch.keep is None and not options.sync_distributed:
            return _estimate_plain(batch, options)
        return _estimate_weighted(batch, options)


def _estimate_plain(batch: Batch, options: AreaOptions) -> Estimate:
    n = len(batch.confidence)
    samples = [Samples(batch.confidence, value, None, float(max(n, 1))) for value in batch.values]
    return Estimate(tuple(_area(s, batch.resolution, options, n == 0) for s in samples), n == 0)


def _estimate_weighted(batch: Batch, options: AreaOptions) -> Estimate:
    n = len(batch.confidence)
    rows, start, processes = _rows(batch, options)
    confidence, weight, *values = rows
    total = weight.sum()
    empty, total = total == 0, at_least(total, 1.0)
    if on_host(total):
        empty, total = bool(empty), float(total)
    if len(weight) > 0:
        # A threshold at the highest confidence repeats an existing one, so it changes nothing.
        confidence = namespace(rows).where(weight > 0, confidence, confidence.max())
    samples = [Samples(confidence, value, weight, total) for value in values]
    areas = [_area(s, batch.resolution, options, empty) for s in samples]
    here = slice(start, start + n)
    return Estimate(tuple(_local(area, here, processes) for area in areas), empty)


def _rows(batch: Batch, options: AreaOptions) -> GlobalBatch:
    """Return confidence, weight and values, with zeros for samples that do not count."""
    xp = namespace(batch.confidence)
    rows = xp.stack((batch.confidence, xp.ones_like(batch.confidence), *batch.values))
    if batch.keep is not None:
        rows = xp.where(batch.keep, rows, 0.0)
    return gather_batch(rows) if options.sync_distributed else GlobalBatch(rows, 0, 1)


def _local(area: Area, here: slice, processes: int) -> Area:
    by_value, by_confidence = (part[here] * processes for part in area[1:])
    return Area(area.area, by_value, by_confidence)


def _area(samples: Samples, resolution: float, options: AreaOptions, empty: bool | Array) -> Area:
    if empty is True:
        return tied_area(samples)
    if options.estimator == "rank":
        return _rank_area(samples)
    width = kernel_width(samples, options.bandwidth, resolution)
    if width.tied is True:
        return tied_area(samples)
    area = smoothed_area(
        samples,
        width.value,
        partial(
            choose_sums,
            bandwidth=options.bandwidth,
            method=options.method,
            in_log_odds=options.in_log_odds,
        ),
        reflect=options.boundary == "reflect",
        domain=REAL_LINE if options.in_log_odds else PROBABILITIES,
    )
    if width.tied is False:
        return area
    xp, flat = namespace(samples.value), tied_area(samples)
    return Area(*(xp.where(width.tied, a, b) for a, b in zip(flat, area, strict=True)))


def _rank_area(samples: Samples) -> Area:
    """Return the area under the COC curve of a batch, by empirical ranks."""
    r, value, weight, total = samples
    xp = namespace(r)
    # Ignored samples are sorted last, where they do not affect any rank.
    ranked = sorted_values(r if weight is None else xp.where(weight > 0, r, math.inf))
    nothing = xp.zeros_like(r)  # added, it turns counts into numbers of r's precision
    below = (nothing + xp.searchsorted(ranked, r, side="left")) / total
    upto = (nothing + xp.searchsorted(ranked, r, side="right")) / total
    by_value = (_delegated(upto) - _delegated(below)) / ((upto - below) * total)
    if weight is not None:
        by_value = xp.where(weight > 0, by_value, 0.0)
    return Area(value @ by_value, by_value, xp.zeros_like(by_value))


def _delegated(load: Array) -> Array:
    """Q(u), with 0 ln 0 = 0 at a load of one."""
    xp = namespace(load)
    rest = 1 - load
    return load + rest * xp.log(xp.where(rest > 0, rest, 1.0))


# ------------------------------------------------------------------ several processes


class GlobalBatch(NamedTuple):
    """The rows of all processes, where this process's rows start, and the number of processes."""

    rows: Array
    start: int
    processes: int


def gather_batch(rows: Array) -> GlobalBatch:
    """Gather `rows` (k, n) of all processes; a single process gets its own.

    These are a few numbers per sample, so gathering them is cheap compared with the model.
    Processes may hold different numbers of samples, or none: shorter ones are padded with zeros,
    and a row of weights is zero for the padding.
    """
    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1:
        return GlobalBatch(rows, 0, 1)
    local = torch.as_tensor(rows)
    longest = torch.tensor([local.shape[1]], device=local.device)
    dist.all_reduce(longest, op=dist.ReduceOp.MAX)
    padded = local.new_zeros(len(local), int(longest))
    padded[:, : local.shape[1]] = local
    parts = [torch.empty_like(padded) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, padded)
    everyone = torch.cat(parts, dim=1)
    gathered = everyone.numpy() if on_host(rows) else everyone
    return GlobalBatch(gathered, dist.get_rank() * int(longest), len(parts))
