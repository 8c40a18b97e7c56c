"""Write the schema as it is released, with a little on the desk, for all later versions to read.

Run by hand when a migration is added: ``python -m tests.desk.freeze_schema``. What was released
before is never written again.
"""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import tempfile
from pathlib import Path

from expertload.desk import Desk, Rules
from expertload.desk.store import open_database
from expertload.desk.store.migrating import newest_revision
from expertload.desk.trail.chain import seal_events
from tests.desk.world import Clock, World, sent
from tests.postgres import Cluster, postgres_binaries

SCHEMAS = Path(__file__).with_name("schemas")


def use(desk: Desk) -> None:
    """Let something of everything happen."""
    world = World(desk, desk.clock)
    world.activate()
    bodies = [{"kind": "text", "content": "look"}, {"kind": "json", "content": {"a": [1, None]}}]
    world.send(*(sent(f"case-{i}", 0.99 if i % 2 else 0.6, body=bodies[i % 2]) for i in range(4)))
    world.answer(world.claim(), "cat")
    world.claim("bob")
    seal_events(desk)


def main() -> None:
    """Write both files of the newest schema."""
    revision = newest_revision()
    options = {"rules": Rules(quality_rate=0.5), "secret": b"frozen"}
    with tempfile.TemporaryDirectory() as folder:
        with Desk.open(Path(folder, "desk"), clock=Clock(), **options) as desk:
            use(desk)
        with sqlite3.connect(Path(folder, "desk", "desk.sqlite")) as connection:
            dump = "\n".join(connection.iterdump())
        connection.close()
    (SCHEMAS / f"{revision}.sqlite.sql").write_text(dump + "\n")
    folder = Path(tempfile.mkdtemp(prefix="desk-pg-"))
    folder.chmod(0o755)
    cluster = Cluster(postgres_binaries(), folder)
    try:
        cluster.sql("CREATE DATABASE desk")
        with Desk(open_database(cluster.address("desk")), clock=Clock(), **options) as desk:
            use(desk)
        dumped = subprocess.run(
            [
                cluster.binaries / "pg_dump",
                *("-h", folder, "-U", "desk", "--inserts", "--no-owner", "--no-privileges"),
                *("--schema=public", "desk"),
            ],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    finally:
        cluster.stop()
        shutil.rmtree(folder)
    kept = [line for line in dumped.splitlines() if line and not line.startswith(("--", "\\"))]
    kept = [line for line in kept if "CREATE SCHEMA public" not in line]
    (SCHEMAS / f"{revision}.postgresql.sql").write_text("\n".join(kept) + "\n")


if __name__ == "__main__":
    main()
