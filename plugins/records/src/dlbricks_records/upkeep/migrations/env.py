"""Run by Alembic: migrates the connection that the store hands over."""

from alembic import context

from dlbricks_core.store.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    # SQLite and PostgreSQL roll schema changes back like any other change.
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
