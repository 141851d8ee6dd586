"""The first schema: systems, measurements, and their raw samples."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Creates all tables and marks the database as a result store."""
    op.create_table(
        "systems",
        sa.Column("fingerprint", sa.String(), primary_key=True),
        sa.Column("facts", sa.JSON(), nullable=False),
    )
    op.create_table(
        "measurements",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("signature", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("backend", sa.String(), nullable=False),
        sa.Column("backend_version", sa.String(), nullable=False),
        sa.Column("settings", sa.String(), nullable=False),
        sa.Column("system", sa.String(), nullable=False),
        sa.Column("threads", sa.Integer(), nullable=False),
        sa.Column("protocol", sa.String(), nullable=False),
        sa.Column("layers", sa.JSON(), nullable=False),
        sa.Column("failure", sa.String()),
        sa.UniqueConstraint(
            "signature",
            "kind",
            "backend",
            "backend_version",
            "settings",
            "system",
            "threads",
            "protocol",
            name="measurement_key",
        ),
    )
    op.create_table(
        "sample_sets",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column(
            "measurement_id",
            sa.Integer(),
            sa.ForeignKey("measurements.id", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column("session", sa.String(), nullable=False),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("samples_ms", sa.JSON(), nullable=False),
        sa.Column("call_ms", sa.Float()),
        sa.Column("warnings", sa.JSON(), nullable=False),
        sa.Column("taken_at", sa.String(), nullable=False),
        sa.UniqueConstraint("measurement_id", "session", "round", name="sample_set_key"),
    )
    # Literals: what a migration did once never changes.
    marks = {
        "sqlite": "PRAGMA application_id = 0x444C4272",
        "postgresql": "COMMENT ON TABLE alembic_version IS 'DLBricks result store'",
    }
    op.execute(marks[op.get_bind().dialect.name])
