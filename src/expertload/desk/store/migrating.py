"""Upgrades any released schema to this one, forward only, after a copy of the tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, text

from expertload.exceptions import DeskRefusedError

__all__ = ["current_revision", "newest_revision", "upgrade"]

SCRIPTS = Path(__file__).with_name("_migrations")
# On PostgreSQL, every transaction holds this lock shared. One that must run alone (the end of a
# policy, sealing, an upgrade) holds it exclusively.
LOCK = 5_403_117_920


def upgrade(engine: Engine, *, before: Callable[[Connection, str], None]) -> None:
    """Run every migration that is missing, in one transaction that runs alone.

    Parameters
    ----------
    engine : Engine
        The database.
    before : callable
        Called with the connection and the present revision before anything is changed; makes the
        copy.
    """
    with engine.connect() as connection:
        if not _is_old(current_revision(connection)):
            return
    with engine.execution_options(desk_writes=True).begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text(f"SELECT pg_advisory_xact_lock({LOCK})"))
        found = current_revision(connection)
        if not _is_old(found):  # a server that started at the same time was first
            return
        if found is not None:
            before(connection, found)
        config = _config()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def current_revision(connection: Connection) -> str | None:
    """Return the revision of a database; None if it is empty."""
    return MigrationContext.configure(connection).get_current_revision()


def newest_revision() -> str | None:
    """Return the revision that this version of the package works with."""
    return ScriptDirectory.from_config(_config()).get_current_head()


def _is_old(found: str | None) -> bool:
    """Whether migrations are missing; a revision that this version does not know is refused."""
    known = {script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()}
    if found is not None and found not in known:
        raise DeskRefusedError(
            "newer_schema",
            f"This database was made by a newer version of expertload (its schema is {found}).",
            "install that version; a schema is never downgraded.",
        )
    return found != newest_revision()


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
