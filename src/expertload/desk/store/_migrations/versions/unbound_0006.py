"""Removes a foreign key of the answers in shadow: their case has the same, and each takes time."""

from alembic import op
from sqlalchemy import inspect

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Remove it where it is; the table that an older version gets today never had it."""
    known = {key["name"] for key in inspect(op.get_bind()).get_foreign_keys("shadows")}
    if "fk_shadows_project_id" in known:
        with op.batch_alter_table("shadows") as table:
            table.drop_constraint("fk_shadows_project_id", type_="foreignkey")
