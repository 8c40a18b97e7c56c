"""Files of predictions: read with their columns found by convention, decided row by row."""

from expertload.predictions.columns import ColumnNames, Columns
from expertload.predictions.deciding import DecisionCounts, decide_file
from expertload.predictions.reading import PredictionsTable, read_predictions

__all__ = [
    "ColumnNames",
    "Columns",
    "DecisionCounts",
    "PredictionsTable",
    "decide_file",
    "read_predictions",
]
