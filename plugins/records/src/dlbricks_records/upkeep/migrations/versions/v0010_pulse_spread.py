"""Spread of the pulses of a session."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Adds the spread, which sessions from before lack."""
    op.add_column("sessions", sa.Column("pulse_spread", sa.Float()))
