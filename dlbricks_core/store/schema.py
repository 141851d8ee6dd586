"""The tables of the result database, as the newest migration leaves them."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    Column,
    Float,
    ForeignKey,
    Integer,
    MetaData,
    String,
    Table,
    UniqueConstraint,
)

#: Marks a SQLite file as ours (``PRAGMA application_id``), so that no other is touched.
APPLICATION_ID = int.from_bytes(b"DLBr", "big")
#: The newest revision under migrations/versions; revisions are numbered in order.
HEAD = "0003"

KEY_COLUMNS = (
    "signature",
    "kind",
    "backend",
    "backend_version",
    "settings",
    "system",
    "threads",
    "protocol",
)

metadata = MetaData()

systems = Table(
    "systems",
    metadata,
    Column("fingerprint", String, primary_key=True),
    Column("facts", JSON, nullable=False),
)

measurements = Table(
    "measurements",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("signature", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("backend", String, nullable=False),
    Column("backend_version", String, nullable=False),
    Column("settings", String, nullable=False),
    Column("system", String, nullable=False),
    Column("threads", Integer, nullable=False),
    Column("protocol", String, nullable=False),
    Column("layers", JSON, nullable=False),
    Column("failure", String),
    UniqueConstraint(*KEY_COLUMNS, name="measurement_key"),
)

sample_sets = Table(
    "sample_sets",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("measurement_id", ForeignKey("measurements.id", ondelete="CASCADE"), nullable=False),
    Column("session", String, nullable=False),
    Column("round", Integer, nullable=False),
    Column("samples_ms", JSON, nullable=False),
    Column("call_ms", Float),
    Column("warnings", JSON, nullable=False),
    Column("taken_at", String, nullable=False),
    Column("spent_s", Float),
    Column("loading_s", Float),
    UniqueConstraint("measurement_id", "session", "round", name="sample_set_key"),
)

# Few, and only ever looked up by all of the key, which is its canonical JSON.
calibrations = Table(
    "calibrations",
    metadata,
    Column("key", String, primary_key=True),
    Column("found", JSON, nullable=False),
)
