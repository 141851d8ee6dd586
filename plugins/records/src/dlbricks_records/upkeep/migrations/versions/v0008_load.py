"""Share of the CPUs that others used while the values of an observation were taken."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Adds the share. Of observations from before, only that of their whole session is known."""
    op.add_column("observations", sa.Column("load", sa.Float()))
