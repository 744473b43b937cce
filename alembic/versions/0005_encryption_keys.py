"""Keys for encrypted requests.

Revision ID: 0005
Revises: 0004
"""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("""
        CREATE TABLE encryption_key (
            tenant text NOT NULL REFERENCES tenant,
            id text NOT NULL,
            algorithm text NOT NULL,
            public_key jsonb NOT NULL,
            sealed bytea NOT NULL,
            created_at timestamptz NOT NULL DEFAULT now(),
            retired_at timestamptz,
            PRIMARY KEY (tenant, id)
        )
    """)


def downgrade() -> None:
    op.execute("DROP TABLE encryption_key")
