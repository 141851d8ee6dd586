"""The tables of the result database, as the newest migration leaves them.

Where a row is one of the records in :mod:`dlbricks_core.facts`, its columns have the names of the
record's fields.
"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    Column,
    Float,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    UniqueConstraint,
)

#: Marks a SQLite file as a result store (``PRAGMA application_id``): other files are not touched.
APPLICATION_ID = int.from_bytes(b"DLBr", "big")
#: The newest revision under migrations/versions; revisions are numbered in order.
HEAD = "0004"

metadata = MetaData()

systems = Table(
    "systems",
    metadata,
    Column("fingerprint", String, primary_key=True),
    Column("facts", JSON, nullable=False),
)

sessions = Table(
    "sessions",
    metadata,
    Column("id", String, primary_key=True),
    Column("host", String, nullable=False),
    Column("system", String, nullable=False),
    Column("version", String, nullable=False),
    Column("started_at", String, nullable=False),
    Column("load", Float),
)

quantities = Table(
    "quantities",
    metadata,
    Column("name", String, primary_key=True),
    Column("unit", String, nullable=False),
    Column("composition", String, nullable=False),
    Column("meaning", String, nullable=False),
)

# One row for each question: its key columns are the question's fields.
measurements = Table(
    "measurements",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("signature", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("quantity", ForeignKey("quantities.name"), nullable=False),
    Column("backend", String, nullable=False),
    Column("version", String, nullable=False),
    Column("options", String, nullable=False),
    Column("threads", Integer, nullable=False),
    Column("protocol", String, nullable=False),
    Column("plugin", String, nullable=False),
    Column("system", String, nullable=False),
    Column("layers", JSON, nullable=False),
    Column("failure", String),
    UniqueConstraint(
        "signature",
        "kind",
        "quantity",
        "backend",
        "version",
        "options",
        "threads",
        "protocol",
        "plugin",
        "system",
        name="measurement_key",
    ),
)

# Sessions that DLBricks recorded have a row of their own; those of older stores have none.
observations = Table(
    "observations",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("measurement_id", ForeignKey("measurements.id", ondelete="CASCADE"), nullable=False),
    Column("session", String, nullable=False),
    Column("round", Integer, nullable=False),
    Column("values", JSON, nullable=False),
    Column("overhead", Float),
    Column("flags", JSON, nullable=False),
    Column("taken_at", String, nullable=False),
    Column("spent_s", Float),
    Column("loading_s", Float),
    UniqueConstraint("measurement_id", "session", "round", name="observation_key"),
)

# Few, and only ever looked up by all of the key, which is its canonical JSON.
calibrations = Table(
    "calibrations",
    metadata,
    Column("key", String, primary_key=True),
    Column("found", JSON, nullable=False),
)

# The same model is rewritten alike however it is timed: the protocol is no part of the key.
rewrites = Table(
    "rewrites",
    metadata,
    Column("signature", String, primary_key=True),
    Column("backend", String, primary_key=True),
    Column("version", String, primary_key=True),
    Column("options", String, primary_key=True),
    Column("threads", Integer, primary_key=True),
    Column("plugin", String, primary_key=True),
    Column("system", String, primary_key=True),
    Column("graph", LargeBinary, nullable=False),
)
