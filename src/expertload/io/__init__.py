"""Files of predictions and data frames: read them, decide their cases, add up their rows."""

from expertload._check import needs_extra
from expertload._names import AuditColumns, ColumnNames, FileOptions, Identity
from expertload.tally import Bounds

with needs_extra("frames", "expertload.io"):
    from expertload.io.annotations import Answered, read_annotations, readings_of, write_annotations
    from expertload.io.audits import (
        AuditTable,
        SampleCounts,
        check_not_sorted,
        draw_audits,
        plain_key,
        read_audits,
    )
    from expertload.io.columns import Columns
    from expertload.io.decide import DecisionCounts, decide_file, decide_frame
    from expertload.io.frames import FrameTally, tally_frame, tally_groups
    from expertload.io.read import read_cases, read_predictions, read_readings
    from expertload.io.rule import policy_sql
    from expertload.io.source import scan_file
    from expertload.io.table import PredictionsTable, match_cases

__all__ = [
    "Answered",
    "AuditColumns",
    "AuditTable",
    "Bounds",
    "ColumnNames",
    "Columns",
    "DecisionCounts",
    "FileOptions",
    "FrameTally",
    "Identity",
    "PredictionsTable",
    "SampleCounts",
    "check_not_sorted",
    "decide_file",
    "decide_frame",
    "draw_audits",
    "match_cases",
    "plain_key",
    "policy_sql",
    "read_annotations",
    "read_audits",
    "read_cases",
    "read_predictions",
    "read_readings",
    "readings_of",
    "scan_file",
    "tally_frame",
    "tally_groups",
    "write_annotations",
]
