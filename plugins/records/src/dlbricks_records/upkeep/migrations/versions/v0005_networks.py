"""Features of the networks that were measured, and which families they belong to."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Adds their table; networks from before enter it when they are asked for again."""
    op.create_table(
        "networks",
        sa.Column("signature", sa.String(), nullable=False, primary_key=True),
        sa.Column("version", sa.String(), nullable=False),
        sa.Column("kinds", sa.JSON(), nullable=False),
        sa.Column("numbers", sa.LargeBinary(), nullable=False),
        sa.Column("groups", sa.JSON(), nullable=False),
    )
