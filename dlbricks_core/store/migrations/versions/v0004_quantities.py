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
    _extend_calibrations()


def _create_tables() -> None:
    quantities = op.create_table(
        "quantities",
        sa.Column("name", sa.String(), primary_key=True),
        sa.Column("unit", sa.String(), nullable=False),
        sa.Column("composition", sa.String(), nullable=False),
        sa.Column("meaning", sa.String(), nullable=False),
    )
    row = {
        "name": _QUANTITY,
        "unit": "ms",
        "composition": "sum",
        "meaning": "time of one inference",
    }
    op.bulk_insert(quantities, [row])
    op.create_table(
        "sessions",
        sa.Column("id", sa.String(), primary_key=True),
        sa.Column("host", sa.String(), nullable=False),
        sa.Column("system", sa.String(), nullable=False),
        sa.Column("version", sa.String(), nullable=False),
        sa.Column("started_at", sa.String(), nullable=False),
        sa.Column("load", sa.Float()),
    )
    op.create_table(
        "rewrites",
        sa.Column("signature", sa.String(), primary_key=True),
        sa.Column("backend", sa.String(), primary_key=True),
        sa.Column("version", sa.String(), primary_key=True),
        sa.Column("options", sa.String(), primary_key=True),
        sa.Column("threads", sa.Integer(), primary_key=True),
        sa.Column("plugin", sa.String(), primary_key=True),
        sa.Column("system", sa.String(), primary_key=True),
        sa.Column("graph", sa.LargeBinary(), nullable=False),
    )
    op.rename_table("measurements", "old_measurements")
    op.create_table(
        "measurements",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("signature", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("quantity", sa.String(), sa.ForeignKey("quantities.name"), nullable=False),
        sa.Column("backend", sa.String(), nullable=False),
        sa.Column("version", sa.String(), nullable=False),
        sa.Column("options", sa.String(), nullable=False),
        sa.Column("threads", sa.Integer(), nullable=False),
        sa.Column("protocol", sa.String(), nullable=False),
        sa.Column("plugin", sa.String(), nullable=False),
        sa.Column("system", sa.String(), nullable=False),
        sa.Column("layers", sa.JSON(), nullable=False),
        sa.Column("failure", sa.String()),
        sa.UniqueConstraint(
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
    op.create_table(
        "observations",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column(
            "measurement_id",
            sa.Integer(),
            sa.ForeignKey("measurements.id", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column("session", sa.String(), nullable=False),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("values", sa.JSON(), nullable=False),
        sa.Column("overhead", sa.Float()),
        sa.Column("flags", sa.JSON(), nullable=False),
        sa.Column("taken_at", sa.String(), nullable=False),
        sa.Column("spent_s", sa.Float()),
        sa.Column("loading_s", sa.Float()),
        sa.UniqueConstraint("measurement_id", "session", "round", name="observation_key"),
    )


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
