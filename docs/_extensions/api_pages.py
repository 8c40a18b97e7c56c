"""The API reference: a page for each public module and each public name, from their docstrings.

`__all__` is the list, so nothing is listed twice. Pages are written to `reference/api` before
Sphinx looks for pages, and only where they changed.
"""

import importlib
import inspect
import pkgutil
import re
from functools import cache
from pathlib import Path

from examples_using import examples_by_home

import expertload

# The command line has a page of its own; these serve our own code, or are listed by the package.
WITHOUT_PAGE = (
    "expertload.cli",
    "expertload.curve",
    "expertload.desk.",
    "expertload.lab.",
)
ALSO = ("expertload.desk.client",)


@cache
def modules():
    """Return the names of the modules that have a page."""
    found = ["expertload", *ALSO]
    for info in pkgutil.walk_packages(expertload.__path__, "expertload."):
        parts = info.name.split(".")
        public = not any(part.startswith("_") for part in parts)
        if public and (info.ispkg or len(parts) == 2) and not info.name.startswith(WITHOUT_PAGE):
            found.append(info.name)
    return found


@cache
def homes():
    """Return the full name under which each object has its page, by the object's identity."""
    found = {}
    for module in modules():
        found[id(importlib.import_module(module))] = module
    for module in sorted(modules(), key=lambda name: name.count("."), reverse=True):
        for name in importlib.import_module(module).__all__:
            thing = getattr(importlib.import_module(module), name)
            found.setdefault(id(thing), f"{module}.{name}")
    return found


def members(module):
    """Return the public objects of a module that are no modules, by name."""
    loaded = importlib.import_module(module)
    things = {name: getattr(loaded, name) for name in loaded.__all__}
    return {name: thing for name, thing in things.items() if not inspect.ismodule(thing)}


def underlined(text, mark="="):
    """Return a title of reStructuredText."""
    return f"{text}\n{mark * len(text)}\n"


def kind(thing):
    """Return the section that an object belongs to."""
    if inspect.isclass(thing):
        return "Exceptions" if issubclass(thing, BaseException) else "Classes"
    return "Functions" if inspect.isroutine(thing) else "Constants"


def module_page(module):
    """Return the page of a module: its docstring and tables of its names."""
    lines = [underlined(module), f".. automodule:: {module}\n   :no-members:\n"]
    things = members(module)
    for section in ("Functions", "Classes", "Exceptions", "Constants"):
        names = [homes()[id(thing)] for thing in things.values() if kind(thing) == section]
        if names:
            table = "".join(f"   ~{name.removeprefix(module + '.')}\n" for name in names)
            lines += [underlined(section, "-"), f".. autosummary::\n   :nosignatures:\n\n{table}"]
    own = [name for name in things if homes()[id(things[name])] == f"{module}.{name}"]
    if own:
        pages = "".join(f"   {name} <{module}.{name}>\n" for name in own)
        lines.append(f".. toctree::\n   :hidden:\n\n{pages}")
    return "\n".join(lines)


def object_page(module, name, thing, examples):
    """Return the page of one class, function or constant, with the pages that use it."""
    directive = {"Functions": "autofunction", "Constants": "autodata"}.get(kind(thing), "autoclass")
    options = "   :members:\n" if directive == "autoclass" else ""
    body = f".. currentmodule:: {module}\n\n.. {directive}:: {name}\n{options}"
    links = "".join(f"- :doc:`/{page}`\n" for page in examples)
    used = f"\n.. rubric:: Examples using this\n\n{links}" if links else ""
    return f"{underlined(name)}\n{body}{used}"


def pages(examples):
    """Return all pages by name; `examples` are the pages that use an object, by its full name."""
    found = {module: module_page(module) for module in modules()}
    for module in modules():
        for name, thing in members(module).items():
            full = f"{module}.{name}"
            if homes()[id(thing)] == full:
                found[full] = object_page(module, name, thing, examples.get(full, ()))
    return found


def write_changed(folder, wanted):
    """Write the files that changed and remove those that are no longer wanted."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        if old.name not in wanted:
            old.unlink()
    for name, text in wanted.items():
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def write(app, config):
    """Write the pages of the reference."""
    folder = Path(app.srcdir) / "reference" / "api"
    examples = examples_by_home(Path(app.srcdir), homes())
    write_changed(folder, {f"{name}.rst": text for name, text in pages(examples).items()})


def is_of_others(app, what, name, thing, skip, options):
    """Leave out what scikit-learn and named tuples add to a class by themselves."""
    added = re.fullmatch(r"set_\w+_request", name)
    alias = str(getattr(thing, "__doc__", "")).startswith("Alias for field number")
    return True if added or alias else None


def setup(app):
    """Write the pages before Sphinx looks for pages."""
    app.connect("config-inited", write)
    app.connect("autodoc-skip-member", is_of_others)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
