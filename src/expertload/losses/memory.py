"""Stores samples of earlier batches, to improve the curve of the current one.

A batch of a hundred samples gives a rough curve, and the curve determines how much each sample
matters. Confidences change slowly from batch to batch, so the old confidences of the last few
batches improve it. Old samples have no gradient. The gradient of the current batch has the same
scale as without a memory, so that the weight of the loss has the same effect.
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
    """The confidence and correctness of the latest samples; saved with the loss's state.

    Parameters
    ----------
    size : int
        The largest number of samples.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        # Not a buffer: moving to a device, half precision, and the broadcast of data-parallel
        # training must not change it.
        self.past = torch.zeros(2, 0, dtype=torch.float64)

    def get_extra_state(self) -> Tensor:
        """Return the state for ``state_dict``."""
        return self.past

    def set_extra_state(self, state: Tensor) -> None:
        """Restore the state from ``state_dict``."""
        self.past = state.detach().to("cpu", torch.float64)[:, : self.size]

    def estimate(self, batch: Batch, options: AreaOptions) -> Estimate:
        """Estimate the area of a batch with the stored samples; only the batch has gradients."""
        xp = namespace(batch.confidence)
        (value,) = batch.values
        confidence, correctness = self._recall(batch.confidence)
        keep, counted, empty = batch.keep, float(max(len(value), 1)), len(value) == 0
        if keep is not None:
            counted, empty = at_least(1.0 * keep.sum(), 1.0), keep.sum() == 0
            keep = xp.concatenate((keep, confidence == confidence))  # all stored samples count
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
        """Store the valid samples of a batch, in place of the oldest ones."""
        (value,) = batch.values
        rows = torch.stack([torch.as_tensor(part) for part in (batch.confidence, value)])
        kept = rows.isfinite().all(0)
        if batch.keep is not None:
            kept &= torch.as_tensor(batch.keep)
        self.past = torch.cat((rows[:, kept].to(self.past), self.past), dim=1)[:, : self.size]

    def _recall(self, like: Array) -> Array:
        """Return the stored samples as an array of the kind of `like`."""
        return as_working(self.past) if on_host(like) else self.past.to(like)
