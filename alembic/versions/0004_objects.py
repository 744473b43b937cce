"""Objects: their names as they were given, their own word lists, engines by name, and records that tell of a start.

Revision ID: 0004
Revises: 0003
"""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

STATEMENTS = """
ALTER TABLE task ADD COLUMN engine text, ADD COLUMN object_name text;
ALTER TABLE engine_record ADD COLUMN finished_at timestamptz;
ALTER TABLE detection ADD COLUMN finished_at timestamptz;
CREATE TABLE object (
    tenant text NOT NULL REFERENCES tenant,
    name text NOT NULL,
    word_lists text[],
    PRIMARY KEY (tenant, name)
)
"""


def upgrade() -> None:
    for statement in filter(None, map(str.strip, STATEMENTS.split(";\n"))):
        op.execute(statement)


def downgrade() -> None:
    op.execute("DROP TABLE object")
    op.execute("ALTER TABLE detection DROP COLUMN finished_at")
    op.execute("ALTER TABLE engine_record DROP COLUMN finished_at")
    op.execute("ALTER TABLE task DROP COLUMN engine, DROP COLUMN object_name")
