"""Quantities, versions of plugins, sessions, and what backends make of models."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

# Until this revision nothing but latency was measured, and 0.1.0 was the only version of any
# plugin. A released plugin of that version finds what is in the store; one under development,
# whose version holds a hash of its code, does not.
_QUANTITY = "latency"
_PLUGIN = "0.1.0"

_KEY = ("signature", "kind", "backend", "threads", "protocol", "system")
_NEW_KEY = ("quantity", "version", "options", "plugin")


def upgrade() -> None:
    """Moves every sample into tables whose key holds the quantity and the plugin's version.

    SQLite cannot change the unique key of a table, so both tables are made anew.
    """
    _create_tables()
    op.execute(
        "INSERT INTO measurements (id, layers, failure, version, options, quantity, plugin, "
        f"{', '.join(_KEY)}) SELECT id, layers, failure, backend_version, settings, '{_QUANTITY}', "
        f"'{_PLUGIN}', {', '.join(_KEY)} FROM old_measurements"
    )
    # Samples of no measurement, which damage leaves, have never been found.
    op.execute(
        'INSERT INTO observations (id, measurement_id, session, round, "values", overhead, flags, '
        "taken_at, spent_s, loading_s) SELECT id, measurement_id, session, round, samples_ms, "
        "call_ms, warnings, taken_at, spent_s, loading_s FROM sample_sets "
        "WHERE measurement_id IN (SELECT id FROM measurements)"
    )
    op.drop_table("sample_sets")
    op.drop_table("old_measurements")
    if _is_file():
        _extend_calibrations()


def _is_file() -> bool:
    """Whether the store is a SQLite file: on a server, all stores of that age are empty."""
    return op.get_bind().dialect.name == "sqlite"


def _create_tables() -> None:
    quantities = op.create_table(
        "quantities",
        *_texts("name", key=True),
        *_texts("unit", "composition", "meaning"),
    )
    meaning = "time of one inference"
    row = {"name": _QUANTITY, "unit": "ms", "composition": "sum", "meaning": meaning}
    op.bulk_insert(quantities, [row])
    op.create_table(
        "sessions",
        *_texts("id", key=True),
        *_texts("host", "system", "version", "started_at"),
        sa.Column("load", sa.Float()),
    )
    op.create_table(
        "rewrites",
        *_texts("signature", "backend", "version", "options", "plugin", "system", key=True),
        sa.Column("threads", sa.Integer(), primary_key=True),
        sa.Column("graph", sa.LargeBinary(), nullable=False),
    )
    if not _is_file():
        # PostgreSQL does not take the name of a constraint twice.
        op.drop_constraint("measurement_key", "measurements")
    op.rename_table("measurements", "old_measurements")
    op.create_table(
        "measurements",
        sa.Column("id", sa.Integer(), primary_key=True),
        *_texts("signature", "kind"),
        sa.Column("quantity", sa.String(), sa.ForeignKey("quantities.name"), nullable=False),
        *_texts("backend", "version", "options", "protocol", "plugin", "system"),
        sa.Column("threads", sa.Integer(), nullable=False),
        sa.Column("layers", sa.JSON(), nullable=False),
        sa.Column("failure", sa.String()),
        sa.UniqueConstraint(*_KEY, *_NEW_KEY, name="measurement_key"),
    )
    measurement = sa.ForeignKey("measurements.id", ondelete="CASCADE")
    op.create_table(
        "observations",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("measurement_id", sa.Integer(), measurement, nullable=False),
        *_texts("session", "taken_at"),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("values", sa.JSON(), nullable=False),
        sa.Column("flags", sa.JSON(), nullable=False),
        sa.Column("overhead", sa.Float()),
        sa.Column("spent_s", sa.Float()),
        sa.Column("loading_s", sa.Float()),
        sa.UniqueConstraint("measurement_id", "session", "round", name="observation_key"),
    )


def _texts(*names: str, key: bool = False) -> list[sa.Column[str]]:
    return [sa.Column(name, sa.String(), nullable=False, primary_key=key) for name in names]


def _extend_calibrations() -> None:
    """Adds quantity and plugin to the keys; a key that damage made unreadable stays as it is."""
    connection = op.get_bind()
    # As bytes: a text that is no UTF-8 would end the query.
    rows = connection.exec_driver_sql("SELECT rowid, CAST(key AS BLOB) FROM calibrations")
    for number, text in rows.all():
        try:
            key = dict(json.loads(text))
            key["version"], key["options"] = key.pop("backend_version"), key.pop("settings")
        except (KeyError, TypeError, ValueError, RecursionError):
            continue
        key |= {"quantity": _QUANTITY, "plugin": _PLUGIN}
        canonical = json.dumps(key, sort_keys=True, separators=(",", ":"))
        connection.exec_driver_sql(
            "UPDATE calibrations SET key = ? WHERE rowid = ?", (canonical, number)
        )
