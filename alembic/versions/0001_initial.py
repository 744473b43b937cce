"""The ledger: tenants, keys, devices, tasks, what engines read, what was found, and what follows from it.

Revision ID: 0001
Revises:
"""

from __future__ import annotations

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

TABLES = """
CREATE TABLE tenant (
    id text PRIMARY KEY,
    name text NOT NULL,
    weight double precision NOT NULL DEFAULT 1 CHECK (weight > 0),
    created_at timestamptz NOT NULL DEFAULT now()
);
INSERT INTO tenant (id, name) VALUES ('default', 'Default');

CREATE TABLE api_key (
    id text PRIMARY KEY,
    tenant text NOT NULL REFERENCES tenant,
    name text NOT NULL,
    secret_hash bytea NOT NULL,
    scopes text[] NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz,
    revoked_at timestamptz,
    last_used_at timestamptz
);
CREATE INDEX api_key_tenant ON api_key (tenant, id);

CREATE TABLE device (
    tenant text NOT NULL REFERENCES tenant,
    mac text NOT NULL,
    name text NOT NULL DEFAULT '',
    weight double precision NOT NULL DEFAULT 1 CHECK (weight > 0),
    in_flight integer NOT NULL DEFAULT 0 CHECK (in_flight >= 0),
    paused boolean NOT NULL DEFAULT false,
    first_seen_at timestamptz NOT NULL DEFAULT now(),
    last_seen_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, mac)
);

CREATE SEQUENCE task_sequence;
CREATE TABLE task (
    id uuid PRIMARY KEY,
    tenant text NOT NULL REFERENCES tenant,
    sequence bigint NOT NULL DEFAULT nextval('task_sequence'),
    kind text NOT NULL,
    lane text NOT NULL,
    queue text NOT NULL,
    mac text,
    object text,
    state text NOT NULL DEFAULT 'queued',
    cost double precision NOT NULL CHECK (cost > 0),
    created_at timestamptz NOT NULL DEFAULT now(),
    not_before timestamptz,
    expires_at timestamptz NOT NULL,
    started_at timestamptz,
    finished_at timestamptz,
    fence bigint NOT NULL DEFAULT 0,
    delivery bigint NOT NULL DEFAULT 0,
    attempts integer NOT NULL DEFAULT 0,
    runner text,
    cancel_requested boolean NOT NULL DEFAULT false,
    error_reason text,
    error_detail text,
    word_lists text[] NOT NULL DEFAULT '{}',
    idempotency_key text,
    request_hash bytea,
    text text,
    blob text,
    blob_sha256 bytea,
    media_type text,
    file_name text,
    CHECK (mac IS NOT NULL OR object IS NOT NULL),
    CHECK (text IS NOT NULL OR blob IS NOT NULL)
);
CREATE UNIQUE INDEX task_idempotency ON task (tenant, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX task_tenant ON task (tenant, id DESC);
CREATE INDEX task_tenant_state ON task (tenant, state, id DESC);
CREATE INDEX task_tenant_mac ON task (tenant, mac, id DESC) WHERE mac IS NOT NULL;
CREATE INDEX task_tenant_object ON task (tenant, object, id DESC) WHERE object IS NOT NULL;
CREATE INDEX task_open ON task (sequence) WHERE state IN ('queued', 'running');
CREATE INDEX task_expiry ON task (expires_at) WHERE state = 'queued';

CREATE TABLE engine_record (
    task_id uuid PRIMARY KEY REFERENCES task ON DELETE CASCADE,
    tenant text NOT NULL,
    state text NOT NULL,
    engine text NOT NULL DEFAULT '',
    version text NOT NULL DEFAULT '',
    text text,
    lines jsonb NOT NULL DEFAULT '[]',
    width integer,
    height integer,
    seconds double precision,
    error text,
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE detection (
    task_id uuid PRIMARY KEY REFERENCES task ON DELETE CASCADE,
    tenant text NOT NULL,
    state text NOT NULL,
    fence bigint NOT NULL,
    hit_count integer NOT NULL DEFAULT 0,
    top_level integer NOT NULL DEFAULT 0,
    lists jsonb NOT NULL DEFAULT '[]',
    error text,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX detection_hits ON detection (tenant, task_id DESC) WHERE hit_count > 0;

CREATE TABLE hit (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text NOT NULL,
    task_id uuid NOT NULL REFERENCES detection ON DELETE CASCADE,
    list_id text NOT NULL,
    list_version integer NOT NULL,
    word text NOT NULL,
    category text NOT NULL,
    level integer NOT NULL,
    start_offset integer NOT NULL,
    end_offset integer NOT NULL,
    matched text NOT NULL,
    box jsonb
);
CREATE INDEX hit_task ON hit (task_id, start_offset);
CREATE INDEX hit_word ON hit (tenant, word, id DESC);

CREATE TABLE report (
    tenant text NOT NULL REFERENCES tenant,
    report_id text NOT NULL,
    mac text NOT NULL,
    body jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, report_id)
);

CREATE TABLE command (
    id uuid PRIMARY KEY,
    tenant text NOT NULL REFERENCES tenant,
    task_id uuid REFERENCES task ON DELETE SET NULL,
    mac text,
    object text,
    kind text NOT NULL,
    body jsonb NOT NULL DEFAULT '{}',
    state text NOT NULL DEFAULT 'pending',
    attempts integer NOT NULL DEFAULT 0,
    next_at timestamptz NOT NULL DEFAULT now(),
    created_at timestamptz NOT NULL DEFAULT now(),
    done_at timestamptz
);
CREATE INDEX command_due ON command (next_at) WHERE state = 'pending';

CREATE TABLE audit_log (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    actor text NOT NULL,
    action text NOT NULL,
    subject text NOT NULL,
    outcome text NOT NULL,
    request_id text,
    detail jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX audit_log_tenant ON audit_log (tenant, id DESC);

CREATE TABLE word_list (
    tenant text NOT NULL REFERENCES tenant,
    id text NOT NULL,
    name text NOT NULL,
    is_default boolean NOT NULL DEFAULT true,
    current_version integer NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, id)
);

CREATE TABLE word_list_version (
    tenant text NOT NULL,
    list_id text NOT NULL,
    version integer NOT NULL CHECK (version > 0),
    word_count integer NOT NULL,
    published_at timestamptz NOT NULL DEFAULT now(),
    published_by text NOT NULL DEFAULT '',
    PRIMARY KEY (tenant, list_id, version),
    FOREIGN KEY (tenant, list_id) REFERENCES word_list (tenant, id) ON DELETE CASCADE
);

CREATE TABLE word (
    tenant text NOT NULL,
    list_id text NOT NULL,
    version integer NOT NULL,
    position integer NOT NULL,
    text text NOT NULL,
    category text NOT NULL,
    level integer NOT NULL,
    PRIMARY KEY (tenant, list_id, version, position),
    FOREIGN KEY (tenant, list_id, version) REFERENCES word_list_version (tenant, list_id, version) ON DELETE CASCADE
);

CREATE TABLE stat_hourly (
    tenant text NOT NULL,
    hour timestamptz NOT NULL,
    lane text NOT NULL,
    state text NOT NULL,
    tasks bigint NOT NULL DEFAULT 0,
    hits bigint NOT NULL DEFAULT 0,
    wait_seconds double precision NOT NULL DEFAULT 0,
    run_seconds double precision NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, hour, lane, state)
);
"""

NAMES = (
    "stat_hourly, word, word_list_version, word_list, audit_log, command, report, hit, detection, engine_record, task, "
    "device, api_key, tenant"
)


def upgrade() -> None:
    for statement in filter(None, map(str.strip, TABLES.split(";\n"))):
        op.execute(statement)


def downgrade() -> None:
    op.execute(f"DROP TABLE {NAMES}")
    op.execute("DROP SEQUENCE task_sequence")
