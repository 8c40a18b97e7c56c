"""Tables that a phone can show: each cell carries the name of its column.

On a wide screen the names are hidden and the table is a table. On a narrow one the style sheet
shows each row as a list, where the names say what is what.
"""

from docutils import nodes
from sphinx.transforms import SphinxTransform

LISTED = 3  # tables of this many columns are lists on a phone; narrower ones fit
MANY = 4  # tables of this many columns need small letters on any screen


class ColumnNames(SphinxTransform):
    """Write the name of its column into each cell of a table that is too wide for a phone."""

    default_priority = 800

    def apply(self, **kwargs):
        """Look at every table of the page."""
        for table in self.document.findall(nodes.table):
            heads = list(table.findall(nodes.thead))
            rows = [row for body in table.findall(nodes.tbody) for row in body.findall(nodes.row)]
            names = [cell.astext() for cell in heads[0].findall(nodes.entry)] if heads else []
            if len(names) >= MANY:
                table["classes"].append("many-columns")
            if len(names) >= LISTED:
                table["classes"].append("phone-list")
                for row in rows:
                    name_cells(row, names)


def name_cells(row, names):
    """Write names into the cells of a row; the first cell names the row, and stays as it is."""
    for cell, name in list(zip(row.children, names, strict=True))[1:]:
        if name and cell.astext():
            cell[0].insert(0, nodes.inline(name, name, classes=["column-name"]))


def setup(app):
    """Register the transform."""
    app.add_transform(ColumnNames)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
