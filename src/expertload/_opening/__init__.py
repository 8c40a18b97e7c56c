"""Opens every file: its name determines the format, fixed rules determine its content.

Files of predictions and frames on disk are both opened here, so a file has the same meaning
everywhere. Nothing is guessed from the content: the dialect of a CSV is fixed, its values stay text
until numbers are requested, and two programs count the rows. A file that breaks a rule is refused.
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
