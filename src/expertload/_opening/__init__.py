"""The one way to open a file: recognised by its name, read by fixed rules, or refused.

Files of predictions and frames on disk both come through here, so a file means the same
everywhere. Nothing is sniffed: the dialect of a CSV is fixed, its values are text until somebody
asks for numbers, and rows are counted twice, by two programs.
"""

from expertload._opening.options import FileOptions
from expertload._opening.source import (
    Batch,
    Coded,
    Progress,
    Source,
    Table,
    from_numpy,
    open_source,
    to_numpy,
)
from expertload._opening.tables import scan

__all__ = [
    "Batch",
    "Coded",
    "FileOptions",
    "Progress",
    "Source",
    "Table",
    "from_numpy",
    "open_source",
    "scan",
    "to_numpy",
]
