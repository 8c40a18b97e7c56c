"""From the confidences of a batch, here and in other processes, to the area under its COC curve."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from expertload.losses._distributed import GlobalBatch, gather_batch
from expertload.losses._kde.area import Area, Samples, smoothed_area, tied_area
from expertload.losses._kde.bandwidth import kernel_width
from expertload.losses._kde.choice import choose_sums
from expertload.losses._kde.host import on_host
from expertload.losses._options import AreaOptions
from expertload.losses._rank import rank_area

__all__ = ["Batch", "Estimate", "estimate_areas"]


class Batch(NamedTuple):
    """What an AUCOC loss needs of a batch; tensors have one entry a sample, in working precision.

    `keep` marks the samples that count, None if all do. `resolution` is the spacing of floating
    point numbers near one in the precision the confidences were computed in.
    """

    confidence: Tensor
    values: tuple[Tensor, ...]
    keep: Tensor | None
    resolution: float


class Estimate(NamedTuple):
    """One area for each kind of values, and whether the batch was empty, here and elsewhere."""

    areas: tuple[Area, ...]
    empty: bool | Tensor


def estimate_areas(batch: Batch, options: AreaOptions) -> Estimate:
    """Estimate the area for each of the batch's values.

    Gradients are those of this process's samples. Under `sync_distributed` they are multiplied by
    the number of processes, because data-parallel training averages gradients over processes.
    """
    n = len(batch.confidence)
    if batch.keep is None and not options.sync_distributed:
        count = float(max(n, 1))
        samples = [Samples(batch.confidence, value, None, count) for value in batch.values]
        return Estimate(tuple(_area(s, batch.resolution, options) for s in samples), n == 0)
    rows, start, processes = _rows(batch, options)
    confidence, weight, *values = rows
    total = weight.sum()
    empty, count = total == 0, total.clamp(min=1)
    if on_host(total):
        empty, count = bool(empty), float(count)
    # At the highest confidence a threshold repeats one that is there, and so changes nothing.
    confidence = confidence.where(weight > 0, confidence.max()) if weight.numel() else confidence
    here = slice(start, start + n)
    areas = [
        _area(Samples(confidence, value, weight, count), batch.resolution, options)
        for value in values
    ]
    return Estimate(tuple(_local(area, here, processes) for area in areas), empty)


def _rows(batch: Batch, options: AreaOptions) -> GlobalBatch:
    """Confidence, weight and values, with zeros for samples that do not count."""
    tensors = (batch.confidence, torch.ones_like(batch.confidence), *batch.values)
    rows = torch.stack(tensors)
    if batch.keep is not None:
        rows = rows.where(batch.keep, 0)
    return gather_batch(rows) if options.sync_distributed else GlobalBatch(rows, 0, 1)


def _local(area: Area, here: slice, processes: int) -> Area:
    by_value, by_confidence = (part[here] * processes for part in area[1:])
    return Area(area.area, by_value, by_confidence)


def _area(samples: Samples, resolution: float, options: AreaOptions) -> Area:
    if options.estimator == "rank":
        return rank_area(samples)
    width = kernel_width(samples, options.bandwidth, resolution)
    if width.tied is True:
        return tied_area(samples)
    area = smoothed_area(
        samples,
        width.value,
        lambda points: choose_sums(points, options.bandwidth, options.method),
        reflect=options.boundary == "reflect",
    )
    if width.tied is False:
        return area
    flat = tied_area(samples)
    return Area(*(torch.where(width.tied, a, b) for a, b in zip(flat, area, strict=True)))
