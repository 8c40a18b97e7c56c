"""`names` in code: a link where they name something on the site, otherwise plain code.

This holds for docstrings and for Markdown pages, which stay readable wherever they are shown. A
name may be written in several ways (`expertload.certify`, `operating_point.certify`, `AUCOCLoss`).
What it is decides, not how it is written: the object is looked up and its one page is linked.
"""

import importlib
import re
from functools import cache

from api_pages import homes
from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

NAME = re.compile(r"[A-Za-z_][\w.]*(\(\))?")


@cache
def by_last_part():
    """Return full names by their last part, where that part says enough and means one thing."""
    found = {}
    for full in homes().values():
        found.setdefault(full.rpartition(".")[2], []).append(full)
    telling = re.compile(r".*[A-Z_].*")
    return {name: full[0] for name, full in found.items() if len(full) == 1 and telling.match(name)}


def look_up(full):
    """Return the object of a full name, or None."""
    first, *parts = full.split(".")
    found = importlib.import_module("expertload") if first == "expertload" else None
    for part in parts:
        found = getattr(found, part, None)
    return found


def home_of(text, module):
    """Return the full name of what a text names, seen from a module, or None."""
    name = text.removesuffix("()")
    for full in (name, f"{module}.{name}", f"expertload.{name}"):
        home = homes().get(id(look_up(full)))
        if home is not None:
            return home
    return by_last_part().get(name)


def reference(text, home):
    """Return a reference to a page of the API."""
    code = nodes.literal(text, text, classes=["xref", "py"])
    return addnodes.pending_xref(
        text, code, refdomain="py", reftype="obj", reftarget=home, refexplicit=True
    )


def name_role(role, rawtext, text, lineno, inliner, options=None, content=None):
    """Make a link of single backticks in a docstring, or code."""
    home = home_of(text, inliner.document.settings.env.ref_context.get("py:module"))
    return [nodes.literal(rawtext, text) if home is None else reference(text, home)], []


class NamesInCode(SphinxTransform):
    """Make links of the code in Markdown pages that names something."""

    default_priority = 400

    def apply(self, **kwargs):
        """Replace every such piece of code."""
        for code in list(self.document.findall(nodes.literal)):
            text = code.astext()
            inside = isinstance(code.parent, addnodes.pending_xref | nodes.reference | nodes.title)
            home = None if inside or not NAME.fullmatch(text) else home_of(text, None)
            if home is not None:
                code.replace_self(reference(text, home))


def written_otherwise(app, env, node, contnode):
    """Link a name of the API that a docstring writes in another way than its page has it."""
    home = home_of(node["reftarget"], node.get("py:module"))
    if node.get("refdomain") != "py" or home is None:
        return None
    domain = env.domains.python_domain
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", home, node, contnode)


def setup(app):
    """Register the role, the transform, and the last resort."""
    app.add_role("name", name_role)
    app.add_transform(NamesInCode)
    app.connect("missing-reference", written_otherwise)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
