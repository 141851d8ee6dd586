"""Numbers of composers that were fitted on one system, with the networks behind them."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Adds their table."""
    op.create_table(
        "calibrations",
        sa.Column("key", sa.String(), primary_key=True),
        sa.Column("found", sa.JSON(), nullable=False),
    )
