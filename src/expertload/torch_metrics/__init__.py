"""Metrics for training loops: the COC curve and its numbers as torchmetrics classes.

They take probabilities, or logits with ``logits=True``, gather over processes, and can skip the
samples that distributed samplers repeat.
"""

from expertload._validation import needs_extra

with needs_extra("torch", "expertload.torch_metrics"):
    from expertload.torch_metrics.aucoc import AUCOC
    from expertload.torch_metrics.coc import COC
    from expertload.torch_metrics.load_at_accuracy import LoadAtAccuracy
    from expertload.torch_metrics.padding import not_padding

__all__ = ["AUCOC", "COC", "LoadAtAccuracy", "not_padding"]
