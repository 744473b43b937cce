"""Images that have been read before, and images that have crashed engines.

Revision ID: 0007
Revises: 0006
"""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

STATEMENTS = """
CREATE INDEX task_seen ON task (tenant, blob_sha256, id DESC) WHERE state = 'succeeded' AND blob_sha256 IS NOT NULL;
CREATE TABLE engine_crash (
    tenant text NOT NULL REFERENCES tenant,
    sha256 bytea NOT NULL,
    engine text NOT NULL,
    version text NOT NULL,
    crashes integer NOT NULL,
    reason text NOT NULL,
    last_task uuid NOT NULL,
    first_at timestamptz NOT NULL DEFAULT now(),
    last_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, sha256, engine)
);
CREATE INDEX engine_crash_age ON engine_crash (tenant, last_at)
"""


def upgrade() -> None:
    for statement in filter(None, map(str.strip, STATEMENTS.split(";\n"))):
        op.execute(statement)


def downgrade() -> None:
    op.execute("DROP TABLE engine_crash")
    op.execute("DROP INDEX task_seen")
