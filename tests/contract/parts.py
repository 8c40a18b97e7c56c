"""The parts of the contract: what each records, by name, and which extras it needs."""

from __future__ import annotations

import importlib

# In this order: later parts use the policies of `stored`.
PARTS = {
    "numbers": ("scipy",),
    "losses": ("torch",),
    "stored": ("typer", "duckdb"),
    "commands": ("typer", "duckdb", "pyarrow", "jinja2"),
    "interface": ("fastapi", "sqlalchemy", "httpx"),
}


def entries_of(part, folder):
    """Return the functions that make the entries of a part, by name."""
    return importlib.import_module(f"tests.contract.{part}").entries(folder)
