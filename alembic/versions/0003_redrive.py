"""Which dead letter a task was made from when it was driven again.

Revision ID: 0003
Revises: 0002
"""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

STATEMENTS = """
ALTER TABLE task ADD COLUMN redrive_of uuid REFERENCES task ON DELETE SET NULL;
CREATE UNIQUE INDEX task_redrive ON task (redrive_of) WHERE redrive_of IS NOT NULL
"""


def upgrade() -> None:
    for statement in filter(None, map(str.strip, STATEMENTS.split(";\n"))):
        op.execute(statement)


def downgrade() -> None:
    op.execute("ALTER TABLE task DROP COLUMN redrive_of")
