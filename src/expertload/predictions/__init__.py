"""Files of predictions: find their columns by convention, read them, and decide their cases."""

from expertload._opening import FileOptions
from expertload.columns import ColumnNames, Columns
from expertload.predictions.audits import AuditColumns, AuditTable, read_audits
from expertload.predictions.deciding import DecisionCounts, decide_file
from expertload.predictions.identity import Identity
from expertload.predictions.reading import read_predictions
from expertload.predictions.table import PredictionsTable, match_cases

__all__ = [
    "AuditColumns",
    "AuditTable",
    "ColumnNames",
    "Columns",
    "DecisionCounts",
    "FileOptions",
    "Identity",
    "PredictionsTable",
    "decide_file",
    "match_cases",
    "read_audits",
    "read_predictions",
]
