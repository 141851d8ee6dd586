"""The tables of the result database, as the newest migration leaves them.

Where a row is one of the records in :mod:`dlbricks_core.facts`, its columns have the names of the
record's fields.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    UniqueConstraint,
    false,
)

#: Marks a SQLite file as a result store (``PRAGMA application_id``): other files are not touched.
#: On PostgreSQL, the number of the lock that writers hold.
APPLICATION_ID = int.from_bytes(b"DLBr", "big")
#: Marks a PostgreSQL schema as a result store (comment on the table ``alembic_version``).
MARK = "DLBricks result store"
#: The newest revision under migrations/versions; revisions are numbered in order.
HEAD = "0008"

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
