"""Run by alembic: runs the migrations on the connection that it was given."""

from alembic import context

from expertload.desk.store.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
