"""`make bench`: every benchmark, or those named on the command line."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import benchmarks

SUPPORT = {"__main__", "measure"}


def main() -> None:
    """Run the modules of this package that have a `main`."""
    every = [m.name for m in pkgutil.iter_modules(benchmarks.__path__) if m.name not in SUPPORT]
    for name in sys.argv[1:] or every:
        importlib.import_module(f"benchmarks.{name}").main()


if __name__ == "__main__":
    main()
