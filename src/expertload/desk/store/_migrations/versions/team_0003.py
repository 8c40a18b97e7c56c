"""Adds what readers' quality, corrections, absences and weighted audits need."""

from alembic import op

from expertload.desk.store.migrating import add_missing

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the columns and indexes that are missing."""
    add_missing(op.get_bind())
