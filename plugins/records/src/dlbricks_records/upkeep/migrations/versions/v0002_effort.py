"""Cost of taking samples: total seconds, and seconds of loading."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Adds both; they are unknown for earlier samples."""
    op.add_column("sample_sets", sa.Column("spent_s", sa.Float()))
    op.add_column("sample_sets", sa.Column("loading_s", sa.Float()))
