"""Lets PostgreSQL refuse TRUNCATE on the tables that only grow."""

from alembic import op

from expertload.desk.store.tables import APPEND_ONLY, refuse_truncate

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the triggers; new databases have them already."""
    if op.get_bind().dialect.name == "postgresql":
        for name in APPEND_ONLY:
            op.execute(f"DROP TRIGGER IF EXISTS {name}_refuse_truncate ON {name}")
            op.execute(refuse_truncate(name))
