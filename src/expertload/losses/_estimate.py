"""From the confidences of a batch, here and in other processes, to the area under its COC curve."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from expertload.losses._distributed import GlobalBatch, gather_batch
from expertload.losses._kde.area import (
    PROBABILITIES,
    REAL_LINE,
    Area,
    Samples,
    smoothed_area,
    tied_area,
)
from expertload.losses._kde.bandwidth import kernel_width
from expertload.losses._kde.choice import choose_sums
from expertload.losses._kde.host import Array, at_least, namespace, on_host
from expertload.losses._options import AreaOptions
from expertload.losses._rank import rank_area

__all__ = ["Batch", "Estimate", "estimate_areas"]


class Batch(NamedTuple):
    """What an AUCOC loss needs of a batch: arrays of one number a sample, in working precision.

    `keep` marks the samples that count, None if all do. `resolution` is the spacing of floating
    point numbers near one in the precision the confidences were computed in.
    """

    confidence: Array
    values: tuple[Array, ...]
    keep: Array | None
    resolution: float


class Estimate(NamedTuple):
    """One area for each kind of values, and whether the batch was empty, here and elsewhere."""

    areas: tuple[Area, ...]
    empty: bool | Array


def estimate_areas(batch: Batch, options: AreaOptions) -> Estimate:
    """Estimate the area for each of the batch's values.

    Gradients are those of this process's samples. Under `sync_distributed` they are multiplied by
    the number of processes, because data-parallel training averages gradients over processes.
    """
    with np.errstate(all="ignore"):  # NaN logits are to pass on in silence, as in torch
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
        # At the highest confidence a threshold repeats one that is there: it changes nothing.
        confidence = namespace(rows).where(weight > 0, confidence, confidence.max())
    samples = [Samples(confidence, value, weight, total) for value in values]
    areas = [_area(s, batch.resolution, options, empty) for s in samples]
    here = slice(start, start + n)
    return Estimate(tuple(_local(area, here, processes) for area in areas), empty)


def _rows(batch: Batch, options: AreaOptions) -> GlobalBatch:
    """Confidence, weight and values, with zeros for samples that do not count."""
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
        return rank_area(samples)
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
