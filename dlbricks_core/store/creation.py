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
    for statement in statements(dialect.name, dialect.driver):
        connection.exec_driver_sql(statement)


@cache
def statements(name: str, driver: str) -> tuple[str, ...]:
    """Statements that fill an empty database, for the dialect of this name and driver.

    Compiling them takes as long as running them, so many stores share the compiled ones.
    """
    dialect = make_url(f"{name}+{driver}://").get_dialect()()
    parts = (
        *map(CreateTable, (_versions, *metadata.sorted_tables)),
        insert(quantities).values(LATENCY.to_dict()),
        insert(_versions).values(version_num=HEAD),
    )
    written = {"literal_binds": True}
    texts = (str(each.compile(dialect=dialect, compile_kwargs=written)) for each in parts)
    return (*texts, _MARKS[name])
