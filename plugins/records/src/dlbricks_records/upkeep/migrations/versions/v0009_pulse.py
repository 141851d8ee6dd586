"""Pulse of a session: milliseconds of a fixed piece of work."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Adds the pulse, which sessions from before lack."""
    op.add_column("sessions", sa.Column("pulse_ms", sa.Float()))
