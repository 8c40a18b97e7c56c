"""Which pages use which public object: their code is parsed, and what it names is looked up.

The reference links each object to the pages whose code uses it. Something imported, or reached
through a module that was imported, is used; a word in a sentence or in a comment is not.
"""

import ast
import importlib
import re

CODE = re.compile(r"^```(?:python|\{code-cell\} python)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
OPTIONS = re.compile(r"\A(?:---\n.*?^---\n|(?::[^\n]*\n)+)", re.DOTALL | re.MULTILINE)
SHELL = re.compile(r"^[!%].*$", re.MULTILINE)
TUTORIALS = "learn"  # they come first


def code_of(text):
    """Return the Python of a page, without the options of its cells and without shell commands."""
    return "\n".join(SHELL.sub("", OPTIONS.sub("", block)) for block in CODE.findall(text))


def imported(node):
    """Yield (name in the code, object) for what an import takes from expertload."""
    if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "expertload":
        module = importlib.import_module(node.module)
        for alias in node.names:
            yield alias.asname or alias.name, getattr(module, alias.name)
    elif isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name.split(".")[0] == "expertload":
                whole = alias.asname or "." not in alias.name
                module = importlib.import_module(alias.name)
                top = alias.asname or "expertload"
                yield top, module if whole else importlib.import_module("expertload")


def reached(node, known):
    """Return the object of a name or of a dotted name, or None."""
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.Attribute):
        return getattr(reached(node.value, known), node.attr, None)
    return None


def objects_in(code):
    """Return everything of expertload that some code names."""
    tree = list(ast.walk(ast.parse(code)))
    known = dict(pair for node in tree for pair in imported(node))
    dotted = (reached(node, known) for node in tree if isinstance(node, ast.Attribute))
    return [*known.values(), *(thing for thing in dotted if thing is not None)]


def examples_by_home(folder, homes):
    """Return the pages that use each object, by the full name of the object.

    `homes` are full names by the identity of objects, as `api_pages.homes` has them.
    """
    pages = [page.relative_to(folder).with_suffix("") for page in sorted(folder.rglob("*.md"))]
    written = [page for page in pages if not page.parts[0].startswith("_")]
    found = {}
    for page in sorted(written, key=lambda page: page.parts[0] != TUTORIALS):
        text = (folder / page).with_suffix(".md").read_text(encoding="utf-8")
        for home in {homes[id(thing)] for thing in objects_in(code_of(text)) if id(thing) in homes}:
            found.setdefault(home, []).append(page.as_posix())
    return found
