"""Data sets by name, as plain arrays.

`load_dataset` returns three splits of ``uint8`` images; `expertload.lab.data.loader` turns them
into batches of tensors. That module is not imported here, so that listing or fetching data does
not wait for torch.
"""

from expertload.lab.data.corruptions import corrupt, corruption_names
from expertload.lab.data.dataset import Augmentation, Dataset, Normalisation, Split
from expertload.lab.data.registry import (
    DatasetInfo,
    dataset_names,
    describe_datasets,
    fetch_dataset,
    load_dataset,
)

__all__ = [
    "Augmentation",
    "Dataset",
    "DatasetInfo",
    "Normalisation",
    "Split",
    "corrupt",
    "corruption_names",
    "dataset_names",
    "describe_datasets",
    "fetch_dataset",
    "load_dataset",
]
