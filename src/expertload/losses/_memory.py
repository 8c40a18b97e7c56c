"""Samples of earlier batches, behind the curve of this one.

A batch of a hundred samples draws a rough curve, and it is the curve that says how much each sample
matters. Confidences change slowly from batch to batch, so those of the last few batches, taken as
they were, draw it better. Nothing is learned from the past; what this batch learns has the scale
that it has without a memory, so that the weight of the loss means the same.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from expertload.losses._estimate import Batch, Estimate, estimate_areas
from expertload.losses._kde.area import Area
from expertload.losses._kde.host import Array, as_working, at_least, namespace
from expertload.losses._options import AreaOptions

__all__ = ["Memory"]


class Memory(nn.Module):
    """The confidence and correctness of the newest samples; saved with the loss's state.

    Parameters
    ----------
    size : int
        How many samples at most.
    """

    past: Tensor
    filled: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("past", torch.zeros(2, size, dtype=torch.float64))
        self.register_buffer("filled", torch.zeros((), dtype=torch.int64))

    def estimate(self, batch: Batch, options: AreaOptions) -> Estimate:
        """Estimate the area of a batch and the past together; gradients are the batch's."""
        xp = namespace(batch.confidence)
        (value,) = batch.values
        confidence, correctness = self._recall(batch.confidence)
        keep, counted = batch.keep, float(len(value))
        if keep is not None:
            counted = at_least(1.0 * keep.sum(), 1.0)
            keep = xp.concatenate((keep, confidence >= 0))  # all of the past counts
        everything = Batch(
            xp.concatenate((batch.confidence, confidence)),
            (xp.concatenate((value, correctness)),),
            keep,
            batch.resolution,
        )
        (area,), empty = estimate_areas(everything, options)
        scale = 1 + len(confidence) / counted
        by_value, by_confidence = (part[: len(value)] * scale for part in area[1:])
        return Estimate((Area(area.area, by_value, by_confidence),), empty)

    def add(self, batch: Batch) -> None:
        """Take in the samples of a batch that count, in the place of the oldest."""
        (value,) = batch.values
        rows = torch.stack([torch.as_tensor(part) for part in (batch.confidence, value)])
        if batch.keep is not None:
            rows = rows[:, torch.as_tensor(batch.keep)]
        size = self.past.shape[1]
        known = self.past[:, : int(self.filled)]
        newest = torch.cat((rows.to(self.past), known), dim=1)[:, :size]
        self.past[:, : newest.shape[1]] = newest
        self.filled.fill_(newest.shape[1])

    def _recall(self, like: Array) -> Array:
        """What is known, as an array of the kind of `like`."""
        known = self.past[:, : int(self.filled)]
        return as_working(known.to(getattr(like, "device", "cpu")))
