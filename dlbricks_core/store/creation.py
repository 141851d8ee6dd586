"""A new store: all tables of the newest schema at once, as the migrations would leave them."""

from __future__ import annotations

from functools import cache

from sqlalchemy import Column, Connection, MetaData, PrimaryKeyConstraint, String, Table, insert
from sqlalchemy.engine import make_url
from sqlalchemy.schema import CreateTable

from dlbricks_core.facts import LATENCY
from dlbricks_core.store.schema import APPLICATION_ID, HEAD, MARK, metadata, quantities

# Alembic keeps the revision here. Its own code is not used: importing it takes longer than this.
_versions = Table(
    "alembic_version",
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)

_MARKS = {
    "sqlite": f"PRAGMA application_id = {APPLICATION_ID}",
    "postgresql": f"COMMENT ON TABLE {_versions.name} IS '{MARK}'",
}
"""Statement that marks an empty database as a result store, by dialect."""


def create(connection: Connection) -> None:
    """Makes an empty database a store of the newest schema.

    Args:
        connection: In a transaction that no other process can write beside, and that is rolled
            back as a whole if it does not end well.
    """
    dialect = connection.dialect
    for statement in _tables(f"{dialect.name}+{dialect.driver}"):
        connection.exec_driver_sql(statement)
    connection.execute(insert(quantities), [LATENCY.to_dict()])
    connection.execute(insert(_versions), [{"version_num": HEAD}])
    connection.exec_driver_sql(_MARKS[dialect.name])


@cache
def _tables(driver: str) -> tuple[str, ...]:
    """Statements that create the tables, each after those that it refers to.

    To compile them takes as long as to run them: whoever makes many stores does it once.
    """
    dialect = make_url(f"{driver}://").get_dialect()()
    tables = (_versions, *metadata.sorted_tables)
    return tuple(str(CreateTable(table).compile(dialect=dialect)) for table in tables)
