"""The shape of the package: layers import downwards, and importing it stays light."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import expertload

PACKAGE = Path(expertload.__file__).parent

# Lower layers first; a module may import from its own layer and from those below it.
LAYERS = [
    {
        "exceptions",
        "_typing",
        "_files",
        "_format",
        "_store",
        "_names",
        "_blocks",
        "_check",
    },
    {"_labels", "_label_arrays"},
    {"cases", "tally", "_answers"},
    {"curve", "metrics", "scores", "calibrators", "significance"},
    {"operating_point", "monitoring", "team", "display", "sklearn"},
    {"evaluation", "report", "io"},
    {"losses", "torch_metrics", "ensembling"},
    {"lab", "desk"},
    {"cli", "__main__"},
]
# Neighbours in one layer that must not know each other.
STRANGERS = [("lab", "desk"), ("metrics", "calibrators"), ("scores", "metrics")]
HEAVY_ALLOWED = {
    "torch": {"losses", "torch_metrics", "ensembling", "lab"},
    "torchmetrics": {"torch_metrics", "lab"},
    "narwhals": {"io"},
    "duckdb": {"io"},
    "pyarrow": {"io", "desk"},
    "matplotlib": {"display", "lab"},
    "sklearn": {"sklearn", "lab"},
}


def concept(path: Path) -> str:
    """The top-level name a file belongs to: `metrics` for `metrics/ood.py`."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


LATER = ast.FunctionDef | ast.AsyncFunctionDef | ast.If


def imports(path: Path):
    """(module, inside a function or a TYPE_CHECKING block) of every import in a file."""
    waiting = [(node, False) for node in parsed(path).body]
    while waiting:
        node, lazy = waiting.pop()
        lazy = lazy or isinstance(node, LATER)
        waiting += [(inner, lazy) for inner in ast.iter_child_nodes(node)]
        if isinstance(node, ast.Import):
            yield from ((alias.name, lazy) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{path}: imports are absolute"
            inside = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from ((name if name in MODULES else node.module, lazy) for name in inside)


FILES = sorted(p for p in PACKAGE.rglob("*.py") if p.name != "__init__.py" or p.parent != PACKAGE)


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


MODULES = {module_name(path) for path in FILES}


def layer_of(name: str) -> int:
    found = [i for i, layer in enumerate(LAYERS) if name in layer]
    assert found, f"{name} belongs to no layer: add it to LAYERS"
    return found[0]


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_downwards(path):
    here = concept(path)
    for module, lazy in imports(path):
        top, _, rest = module.partition(".")
        if top == "expertload" and rest:
            there = rest.split(".")[0]
            assert layer_of(there) <= layer_of(here), f"{here} must not import {there}"
            assert (here, there) not in STRANGERS, f"{here} must not know {there}"
        elif top in HEAVY_ALLOWED and not lazy:
            assert here in HEAVY_ALLOWED[top], f"{here} must not import {top}"


def test_the_page_has_the_same_layers():
    page = (Path(__file__).parents[1] / "docs" / "architecture.md").read_text()
    table = page.split("| layer |")[1].split("\n\n")[0].splitlines()[2:]
    listed = [set(re.findall(r"`(\w+)`", row.split("|")[2])) for row in reversed(table)]
    assert listed == [layer - {"__main__"} for layer in LAYERS]


@pytest.mark.slow
def test_no_cycles_between_modules():
    graph = {
        module_name(path): {module for module, lazy in imports(path) if not lazy} & MODULES
        for path in FILES
    }
    TopologicalSorter(graph).prepare()  # raises an error that names the cycle


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(PACKAGE.parent)},
    )
    return done.stdout


@pytest.mark.processes
@pytest.mark.parametrize("module", ["expertload", "expertload.operating_point"])
def test_importing_the_package_loads_nothing_heavy(module):
    loaded = run(f"import sys, {module}; print(*sys.modules)").split()
    others = ("torch", "matplotlib", "sklearn", "pandas", "torchmetrics", "narwhals")
    slow_parts = ("scipy.stats", "scipy.optimize", "scipy.interpolate")
    for module in others + slow_parts:
        assert module not in loaded


@pytest.mark.processes
@pytest.mark.parametrize("command", [["--help"], ["evaluate", "--help"], ["lab", "evaluate", "-h"]])
def test_help_loads_nothing_heavy(command):
    loaded = run(
        "import sys\nfrom expertload.cli.app import app\n"
        f"try:\n    app({command!r})\nexcept SystemExit:\n    print(*sys.modules)"
    ).split()
    assert "expertload.cli.evaluate" in loaded
    for module in ("numpy", "scipy", "pyarrow", "duckdb", "torch", "expertload.operating_point"):
        assert module not in loaded


def test_package_says_what_it_is():
    assert (PACKAGE / "py.typed").exists()
    assert expertload.__version__.count(".") == 2


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_modules_open_with_a_docstring_and_print_nothing(path):
    tree = parsed(path)
    assert ast.get_docstring(tree), f"{path.name} has no docstring"
    if concept(path) != "cli":
        calls = [n.func for n in ast.walk(tree) if isinstance(n, ast.Call)]
        assert not any(isinstance(f, ast.Name) and f.id == "print" for f in calls)
