"""Creates the tables as they are now; later steps add them to databases of older versions.

Every schema in `tests/desk/schemas` must upgrade to the present tables.
"""

from alembic import op

from expertload.desk.store.tables import metadata

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create all tables."""
    metadata.create_all(op.get_bind())
