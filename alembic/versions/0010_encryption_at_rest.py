"""Encryption at rest: data keys, who wants it, and which tasks are sealed.

Revision ID: 0010
Revises: 0009
"""

from __future__ import annotations

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

STATEMENTS = """
CREATE TABLE data_key (
    tenant text NOT NULL REFERENCES tenant,
    id text NOT NULL,
    sealed bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, id)
);
ALTER TABLE tenant ADD COLUMN encrypt_at_rest boolean NOT NULL DEFAULT false;
ALTER TABLE task ADD COLUMN data_key text;
ALTER TABLE task ADD FOREIGN KEY (tenant, data_key) REFERENCES data_key
"""


def upgrade() -> None:
    for statement in filter(None, map(str.strip, STATEMENTS.split(";\n"))):
        op.execute(statement)


def downgrade() -> None:
    op.execute("ALTER TABLE task DROP COLUMN data_key")
    op.execute("ALTER TABLE tenant DROP COLUMN encrypt_at_rest")
    op.execute("DROP TABLE data_key")
