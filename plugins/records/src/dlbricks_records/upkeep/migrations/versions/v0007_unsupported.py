"""Whether a measurement failed because the backend does not support a layer."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Adds the mark. It is unknown for earlier failures, which count as other failures."""
    op.add_column(
        "measurements",
        sa.Column("unsupported", sa.Boolean(), nullable=False, server_default=sa.false()),
    )
