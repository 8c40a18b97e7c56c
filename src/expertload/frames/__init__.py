"""The COC curve from any data frame, of any size, computed where the data are.

A pandas, Polars, PyArrow, DuckDB, Dask or Spark frame groups its own rows by confidence; only that
small table comes to numpy, and from it the curve, its area and every reading follow. Tables of
shards, days or sites add up. Files larger than memory are opened with `scan_file`.
"""

from expertload._opening import FileOptions
from expertload.frames.bounds import Bounds
from expertload.frames.frame_tally import FrameTally
from expertload.frames.from_file import scan_file
from expertload.frames.from_frame import tally_frame, tally_groups

__all__ = ["Bounds", "FileOptions", "FrameTally", "scan_file", "tally_frame", "tally_groups"]
