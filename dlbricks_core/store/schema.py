"""The tables of the result database, as the newest migration leaves them.

Where a row is one of the records in :mod:`dlbricks_core.facts`, its columns have the names of the
record's fields.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Float,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    UniqueConstraint,
    false,
    insert,
)
from sqlalchemy.engine import make_url
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import CreateTable
from sqlalchemy.sql.functions import FunctionElement

from dlbricks_core.facts import LATENCY

#: Marks a SQLite file as a result store (``PRAGMA application_id``): other files are not touched.
#: On PostgreSQL, the number of the lock that writers hold.
APPLICATION_ID = int.from_bytes(b"DLBr", "big")
#: Marks a PostgreSQL schema as a result store (comment on the table ``alembic_version``).
MARK = "DLBricks result store"
#: The newest revision; revisions are numbered in order. ``dlbricks-records`` has the migrations.
HEAD = "0010"

QUESTION = (
    *("signature", "kind", "backend", "threads", "protocol", "system"),
    *("quantity", "version", "options", "plugin"),
)
"""Key columns of a measurement: the fields of its question, its subject and its setup.

Their order is that of the index in stores that were migrated.
"""

metadata = MetaData()


def _texts(*names: str, key: bool = False) -> list[Column[str]]:
    return [Column(name, String, nullable=False, primary_key=key) for name in names]


systems = Table(
    "systems",
    metadata,
    *_texts("fingerprint", key=True),
    Column("facts", JSON, nullable=False),
)

sessions = Table(
    "sessions",
    metadata,
    *_texts("id", key=True),
    *_texts("host", "system", "version", "started_at"),
    Column("load", Float),
    Column("pulse_ms", Float),
    Column("pulse_spread", Float),
)

# Hosts, not fingerprints, have names: equal machines share a fingerprint.
machines = Table(
    "machines",
    metadata,
    *_texts("system", "host", key=True),
    *_texts("name", "named_at"),
)

quantities = Table(
    "quantities",
    metadata,
    *_texts("name", key=True),
    *_texts("unit", "composition", "meaning"),
)

measurements = Table(
    "measurements",
    metadata,
    Column("id", Integer, primary_key=True),
    *_texts("signature", "kind"),
    Column("quantity", ForeignKey("quantities.name"), nullable=False),
    *_texts("backend", "version", "options", "protocol", "plugin", "system"),
    Column("threads", Integer, nullable=False),
    Column("layers", JSON, nullable=False),
    Column("failure", String),
    Column("unsupported", Boolean, nullable=False, server_default=false()),
    UniqueConstraint(*QUESTION, name="measurement_key"),
)

# A recorded session has a row; sessions of older stores have no row.
observations = Table(
    "observations",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("measurement_id", ForeignKey("measurements.id", ondelete="CASCADE"), nullable=False),
    *_texts("session", "taken_at"),
    Column("round", Integer, nullable=False),
    Column("values", JSON, nullable=False),
    Column("flags", JSON, nullable=False),
    Column("overhead", Float),
    Column("spent_s", Float),
    Column("loading_s", Float),
    Column("load", Float),
    UniqueConstraint("measurement_id", "session", "round", name="observation_key"),
)

# Few, and only ever looked up by all of the key, which is its canonical JSON.
calibrations = Table(
    "calibrations",
    metadata,
    *_texts("key", key=True),
    Column("found", JSON, nullable=False),
)

# A model is rewritten alike however it is timed: the protocol is not part of the key.
rewrites = Table(
    "rewrites",
    metadata,
    *_texts("signature", "backend", "version", "options", "plugin", "system", key=True),
    Column("threads", Integer, primary_key=True),
    Column("graph", LargeBinary, nullable=False),
)

# Features do not depend on how a network runs: there is one row for all of its measurements.
networks = Table(
    "networks",
    metadata,
    *_texts("signature", key=True),
    *_texts("version"),
    Column("kinds", JSON, nullable=False),
    Column("numbers", LargeBinary, nullable=False),
    Column("groups", JSON, nullable=False),
)


# A new store: all tables of the newest schema at once, as the migrations would leave them.

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


# What databases spell differently: aggregation of texts, and their order. Other distributions
# compile both for databases of theirs.


class JoinedTexts(FunctionElement[bytes]):
    """Texts of the rows of a group with commas between, as UTF-8.

    They come as bytes because a text that is no UTF-8, which damage leaves in a SQLite file, would
    end the query.

    Args:
        each: The text of a row.
        order: What rows are ordered by.
    """

    type = LargeBinary()
    inherit_cache = True

    def __init__(self, each: ColumnElement[Any], order: ColumnElement[Any]) -> None:
        super().__init__(each, order)


@compiles(JoinedTexts, "sqlite")
def _joined(element: JoinedTexts, compiler: Any, **how: Any) -> str:
    each, _ = element.clauses
    # Rows come in the order of their ids, and older versions take no other.
    return f"CAST(group_concat({compiler.process(each, **how)}) AS BLOB)"


class Bytewise(FunctionElement[str]):
    """A text that orders rows byte by byte, independently of the language of the database.

    Args:
        text: The text.
    """

    type = String()
    inherit_cache = True

    def __init__(self, text: ColumnElement[Any]) -> None:
        super().__init__(text)


@compiles(Bytewise, "sqlite")
def _as_it_is(element: Bytewise, compiler: Any, **how: Any) -> str:
    (text,) = element.clauses
    return str(compiler.process(text, **how))
