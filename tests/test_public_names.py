"""What can be seen is what is promised."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import re

import pytest

import expertload


def public_modules():
    """Top-level modules and all packages: the modules inside a package may change at any time."""
    for info in pkgutil.walk_packages(expertload.__path__, "expertload."):
        parts = info.name.split(".")
        if not any(part.startswith("_") for part in parts) and (info.ispkg or len(parts) == 2):
            yield info.name


def in_order(name):
    """Constants, classes, functions; numbers count as numbers: resnet8 comes before resnet14."""
    kind = 0 if name.isupper() else 1 if name[0].isupper() else 2
    return kind, [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


# The rooms of the desk and most of the lab's export nothing: modules are imported one by one.
ROOMS = ("ladder", "results", "runs", "sweeps", "training")
SILENT = ("expertload.desk.", *(f"expertload.lab.{room}" for room in ROOMS))
EXPORTING = [name for name in public_modules() if not name.startswith(SILENT)]


@pytest.mark.parametrize("name", ["expertload", *EXPORTING])
def test_all_is_sorted_and_exists(name):
    module = importlib.import_module(name)
    names = module.__all__
    assert names == sorted(names, key=in_order)
    assert len(set(names)) == len(names)
    for public in names:
        assert hasattr(module, public)


def test_all_of_the_package_is_what_is_visible():
    submodules = {info.name for info in pkgutil.iter_modules(expertload.__path__)}
    visible = {n for n in vars(expertload) if not n.startswith("_")} - submodules
    assert visible <= set(expertload.__all__)


# The command line documents itself; the rooms of desk and lab serve our own code.
FOR_OURSELVES = ("expertload.cli", "expertload.desk.", "expertload.lab.")


EXAMPLES = doctest.DocTestParser()


def documented():
    """Functions that people call from Python."""
    for name in ["expertload", *(m for m in public_modules() if not m.startswith(FOR_OURSELVES))]:
        module = importlib.import_module(name)
        for public in module.__all__:
            thing = getattr(module, public)
            if inspect.isfunction(thing):
                yield pytest.param(thing, id=f"{name}.{public}")


@pytest.mark.parametrize("function", list(documented()))
def test_public_functions_are_documented_with_an_example(function):
    shown = [each.want.strip() for each in EXAMPLES.get_examples(inspect.getdoc(function) or "")]
    assert set(shown) - {"", "True", "False", "None", "[]"}, f"{function.__name__} shows nothing"


@pytest.mark.parametrize("function", list(documented()))
def test_options_are_keyword_only_and_typed(function):
    parameters = inspect.signature(function).parameters.values()
    for parameter in parameters:
        assert parameter.annotation is not inspect.Parameter.empty, parameter.name
        # One `Cases` may stand for both arrays.
        if parameter.default is not inspect.Parameter.empty and parameter.name != "y_proba":
            assert parameter.kind is inspect.Parameter.KEYWORD_ONLY, parameter.name
