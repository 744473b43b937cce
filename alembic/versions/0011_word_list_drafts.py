"""Word lists: drafts, rollbacks, deletion, and hits of lists in shadow mode.

Revision ID: 0011
Revises: 0010
"""

from __future__ import annotations

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

STATEMENTS = """
ALTER TABLE word_list ADD COLUMN deleted_at timestamptz;
ALTER TABLE word_list_version ADD COLUMN restores integer;
CREATE TABLE word_list_draft (
    tenant text NOT NULL,
    list_id text NOT NULL,
    name text NOT NULL,
    is_default boolean NOT NULL,
    options jsonb NOT NULL,
    base_version integer NOT NULL,
    revision integer NOT NULL,
    word_count integer NOT NULL,
    updated_at timestamptz NOT NULL DEFAULT now(),
    updated_by text NOT NULL,
    PRIMARY KEY (tenant, list_id),
    FOREIGN KEY (tenant, list_id) REFERENCES word_list (tenant, id) ON DELETE CASCADE
);
CREATE TABLE draft_word (
    tenant text NOT NULL,
    list_id text NOT NULL,
    text text NOT NULL,
    allow boolean NOT NULL,
    position integer NOT NULL,
    category text NOT NULL,
    level integer NOT NULL,
    mode text,
    tags text[] NOT NULL,
    replacement text,
    PRIMARY KEY (tenant, list_id, text, allow),
    FOREIGN KEY (tenant, list_id) REFERENCES word_list_draft (tenant, list_id) ON DELETE CASCADE
);
ALTER TABLE hit ADD COLUMN shadow boolean NOT NULL DEFAULT false;
CREATE INDEX hit_list ON hit (tenant, list_id, id DESC);
ALTER TABLE detection ADD COLUMN shadow_count integer NOT NULL DEFAULT 0
"""


def upgrade() -> None:
    for statement in filter(None, map(str.strip, STATEMENTS.split(";\n"))):
        op.execute(statement)


def downgrade() -> None:
    op.execute("ALTER TABLE detection DROP COLUMN shadow_count")
    op.execute("DROP INDEX hit_list")
    op.execute("ALTER TABLE hit DROP COLUMN shadow")
    op.execute("DROP TABLE draft_word, word_list_draft")
    op.execute("ALTER TABLE word_list_version DROP COLUMN restores")
    op.execute("ALTER TABLE word_list DROP COLUMN deleted_at")
