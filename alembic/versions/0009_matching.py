"""How lists are matched, what their words say beside category and level, and what hits say.

Revision ID: 0009
Revises: 0008
"""

from __future__ import annotations

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

STATEMENTS = """
ALTER TABLE word_list_version ADD COLUMN options jsonb NOT NULL DEFAULT '{}';
ALTER TABLE word
    ADD COLUMN mode text,
    ADD COLUMN allow boolean NOT NULL DEFAULT false,
    ADD COLUMN tags text[] NOT NULL DEFAULT '{}',
    ADD COLUMN replacement text;
ALTER TABLE hit
    ADD COLUMN rule text,
    ADD COLUMN tags jsonb NOT NULL DEFAULT '[]',
    ADD COLUMN replacement text;
ALTER TABLE detection ADD COLUMN hits_cut boolean NOT NULL DEFAULT false
"""


def upgrade() -> None:
    for statement in filter(None, map(str.strip, STATEMENTS.split(";\n"))):
        op.execute(statement)


def downgrade() -> None:
    op.execute("ALTER TABLE detection DROP COLUMN hits_cut")
    op.execute("ALTER TABLE hit DROP COLUMN replacement, DROP COLUMN tags, DROP COLUMN rule")
    op.execute("ALTER TABLE word DROP COLUMN replacement, DROP COLUMN tags, DROP COLUMN allow, DROP COLUMN mode")
    op.execute("ALTER TABLE word_list_version DROP COLUMN options")
