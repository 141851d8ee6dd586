"""Names that owners gave to their machines."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Adds their table; nobody has named a machine before."""
    op.create_table(
        "machines",
        sa.Column("system", sa.String(), nullable=False, primary_key=True),
        sa.Column("host", sa.String(), nullable=False, primary_key=True),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("named_at", sa.String(), nullable=False),
    )
