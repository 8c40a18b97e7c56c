"""Samples of earlier batches, behind the curve of this one.

A batch of a hundred samples draws a rough curve, and it is the curve that says how much each sample
matters. Confidences change slowly from batch to batch, so those of the last few batches, taken as
they were, draw it better. Nothing is learned from the past; what this batch learns has the scale
that it has without a memory, so that the weight of the loss means the same.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from expertload.losses.estimate import Batch, Estimate, estimate_areas
from expertload.losses.kde.area import Area
from expertload.losses.kde.array_namespace import Array, as_working, at_least, namespace, on_host
from expertload.losses.options import AreaOptions

__all__ = ["Memory"]


class Memory(nn.Module):
    """The confidence and correctness of the newest samples; saved with the loss's state.

    Parameters
    ----------
    size : int
        How many samples at most.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        # No buffer: neither a device nor half precision, nor the broadcast of data-parallel
        # training, may change it.
        self.past = torch.zeros(2, 0, dtype=torch.float64)

    def get_extra_state(self) -> Tensor:
        """Return what ``state_dict`` holds."""
        return self.past

    def set_extra_state(self, state: Tensor) -> None:
        """Take over what ``state_dict`` held."""
        self.past = state.detach().to("cpu", torch.float64)[:, : self.size]

    def estimate(self, batch: Batch, options: AreaOptions) -> Estimate:
        """Estimate the area of a batch and the past together; gradients are the batch's."""
        xp = namespace(batch.confidence)
        (value,) = batch.values
        confidence, correctness = self._recall(batch.confidence)
        keep, counted, empty = batch.keep, float(max(len(value), 1)), len(value) == 0
        if keep is not None:
            counted, empty = at_least(1.0 * keep.sum(), 1.0), keep.sum() == 0
            keep = xp.concatenate((keep, confidence == confidence))  # all of the past counts
        everything = Batch(
            xp.concatenate((batch.confidence, confidence)),
            (xp.concatenate((value, correctness)),),
            keep,
            batch.resolution,
        )
        (area,), _ = estimate_areas(everything, options)
        scale = 1 + len(confidence) / counted
        by_value, by_confidence = (part[: len(value)] * scale for part in area[1:])
        return Estimate((Area(area.area, by_value, by_confidence),), empty)

    def add(self, batch: Batch) -> None:
        """Take in the samples of a batch that count and are numbers, for the oldest there are."""
        (value,) = batch.values
        rows = torch.stack([torch.as_tensor(part) for part in (batch.confidence, value)])
        kept = rows.isfinite().all(0)
        if batch.keep is not None:
            kept &= torch.as_tensor(batch.keep)
        self.past = torch.cat((rows[:, kept].to(self.past), self.past), dim=1)[:, : self.size]

    def _recall(self, like: Array) -> Array:
        """The past, as an array of the kind of `like`."""
        return as_working(self.past) if on_host(like) else self.past.to(like)
