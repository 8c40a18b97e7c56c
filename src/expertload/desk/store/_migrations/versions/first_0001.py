"""The first schema: the tables as they are now, because no later step changes them yet.

Before you add a step that does, write the statements of this schema here. They are in
`tests/desk/schemas`, and every schema there must upgrade to the present tables.
"""

from alembic import op

from expertload.desk.store.tables import metadata

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create all tables."""
    metadata.create_all(op.get_bind())
