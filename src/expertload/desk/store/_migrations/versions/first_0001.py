"""The first schema: the tables as they are, for there is no other yet.

Whoever adds a second step first puts here, as statements, what this one made: it is kept in
`tests/desk/schemas`, and a desk must get to today's tables from every schema in there.
"""

from alembic import op

from expertload.desk.store.tables import metadata

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make every table."""
    metadata.create_all(op.get_bind())
