"""Adds the answers of models in shadow, and policies that decide a share of the cases on trial."""

from alembic import op

from expertload.desk.store.migrating import add_missing

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add the table, the columns and the index that are missing."""
    add_missing(op.get_bind())
