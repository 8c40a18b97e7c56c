"""The COC curve of any data frame, of any size, computed by the frame's own engine.

The engine of a pandas, Polars, PyArrow, DuckDB, Dask or Spark frame groups the rows by confidence.
Only this small table is returned to numpy; the curve, its area and all other numbers are computed
from it. Tables of shards, days or sites can be added. Files larger than memory are opened with
`scan_file`.
"""

from expertload._bounds import Bounds
from expertload._opening import FileOptions
from expertload.frames.frame_tally import FrameTally
from expertload.frames.from_file import scan_file
from expertload.frames.from_frame import tally_frame, tally_groups

__all__ = ["Bounds", "FileOptions", "FrameTally", "scan_file", "tally_frame", "tally_groups"]
