"""What operators decide: weights, rates, pauses.

Revision ID: 0002
Revises: 0001
"""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

STATEMENTS = """
ALTER TABLE tenant ADD COLUMN device_weight double precision NOT NULL DEFAULT 1 CHECK (device_weight > 0);
ALTER TABLE tenant ADD COLUMN rate double precision NOT NULL DEFAULT 0 CHECK (rate >= 0);
ALTER TABLE tenant ADD COLUMN burst integer NOT NULL DEFAULT 0 CHECK (burst >= 0);
ALTER TABLE device ALTER COLUMN weight DROP NOT NULL;
ALTER TABLE device ALTER COLUMN weight DROP DEFAULT;
UPDATE device SET weight = NULL WHERE weight = 1;
ALTER TABLE device ADD COLUMN rate double precision NOT NULL DEFAULT 0 CHECK (rate >= 0);
ALTER TABLE device ADD COLUMN burst integer NOT NULL DEFAULT 0 CHECK (burst >= 0);
ALTER TABLE device DROP COLUMN paused;
CREATE TABLE pause (
    what text PRIMARY KEY,
    tenant text,
    reason text NOT NULL DEFAULT '',
    paused_by text NOT NULL,
    paused_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX task_dead ON task (tenant, finished_at DESC, id DESC) WHERE state = 'dead'
"""


def upgrade() -> None:
    for statement in filter(None, map(str.strip, STATEMENTS.split(";\n"))):
        op.execute(statement)


def downgrade() -> None:
    op.execute("DROP INDEX task_dead")
    op.execute("DROP TABLE pause")
    op.execute("ALTER TABLE device ADD COLUMN paused boolean NOT NULL DEFAULT false")
    op.execute("ALTER TABLE device DROP COLUMN burst, DROP COLUMN rate")
    op.execute("UPDATE device SET weight = 1 WHERE weight IS NULL")
    op.execute("ALTER TABLE device ALTER COLUMN weight SET DEFAULT 1, ALTER COLUMN weight SET NOT NULL")
    op.execute("ALTER TABLE tenant DROP COLUMN burst, DROP COLUMN rate, DROP COLUMN device_weight")
