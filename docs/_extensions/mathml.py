"""Formulas as MathML, made at build time: browsers draw it themselves, without a script."""

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml


def inline(translator, node):
    """Write a formula inside a sentence."""
    translator.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def displayed(translator, node):
    """Write a formula on a line of its own, named where something refers to it."""
    for name in node.get("ids", []):
        translator.body.append(f'<span id="{name}"></span>')
    translator.body.append(f'<div class="math">{tex2mathml(node.astext(), as_block=True)}</div>')
    raise nodes.SkipNode


def setup(app):
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (inline, None), (displayed, None))
    app.config.html_math_renderer = "mathml"
    return {"parallel_read_safe": True, "parallel_write_safe": True}
