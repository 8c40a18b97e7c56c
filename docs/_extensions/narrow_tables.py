"""Tables of many columns that a phone can show: each cell carries the name of its column.

On a wide screen the names are hidden and the table is a table. On a narrow one the style sheet
shows each row as a list, where the names say what is what.
"""

from docutils import nodes
from sphinx.transforms import SphinxTransform

FEWEST_COLUMNS = 4  # narrower tables fit


class ColumnNames(SphinxTransform):
    """Write the name of its column into each cell of a wide table."""

    default_priority = 800

    def apply(self, **kwargs):
        """Look at every table of the page."""
        for table in self.document.findall(nodes.table):
            heads = list(table.findall(nodes.thead))
            rows = [row for body in table.findall(nodes.tbody) for row in body.findall(nodes.row)]
            names = [cell.astext() for cell in heads[0].findall(nodes.entry)] if heads else []
            if len(names) >= FEWEST_COLUMNS:
                table["classes"].append("many-columns")
                for row in rows:
                    name_cells(row, names)


def name_cells(row, names):
    """Write names into the cells of a row; the first cell names the row, and stays as it is."""
    for cell, name in list(zip(row.children, names, strict=True))[1:]:
        place = cell[0] if cell.children else nodes.paragraph()
        if place.parent is None:
            cell += place
        place.insert(0, nodes.inline(name, name, classes=["column-name"]))


def setup(app):
    """Register the transform."""
    app.add_transform(ColumnNames)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
