"""Stores everything: the same tables in SQLite (a folder) or PostgreSQL (several servers)."""

from expertload.desk.store.backup import backup, restore
from expertload.desk.store.database import Database, WantsExclusive
from expertload.desk.store.opening import open_database
from expertload.desk.store.postgres import PostgresDatabase
from expertload.desk.store.sqlite import SqliteDatabase
from expertload.desk.store.transaction import (
    CLOCK_SLACK,
    SECOND,
    AnyRow,
    Event,
    Project,
    Transaction,
    content_digest,
)

__all__ = [
    "CLOCK_SLACK",
    "SECOND",
    "AnyRow",
    "Database",
    "Event",
    "PostgresDatabase",
    "Project",
    "SqliteDatabase",
    "Transaction",
    "WantsExclusive",
    "backup",
    "content_digest",
    "open_database",
    "restore",
]
