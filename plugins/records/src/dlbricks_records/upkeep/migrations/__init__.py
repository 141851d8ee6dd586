"""Alembic migrations of the result database."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection

MIGRATIONS = Path(__file__).parent


def migrate(connection: Connection, revision: str) -> None:
    """Runs the migrations that a store lacks.

    Args:
        connection: In a transaction that writes.
        revision: Schema revision that they lead to.
    """
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, revision)
