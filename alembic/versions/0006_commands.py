"""Commands that follow hits, webhooks that are told of them, callbacks of tasks (docs/decisions/0012-outbox.md).

Revision ID: 0006
Revises: 0005
"""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

TABLES = """
ALTER TABLE task ADD COLUMN callback_url text, ADD COLUMN request_id text;

ALTER TABLE command DROP COLUMN attempts, DROP COLUMN next_at,
    ADD COLUMN policy text NOT NULL DEFAULT '', ADD COLUMN level integer NOT NULL DEFAULT 0;
CREATE INDEX command_tenant ON command (tenant, created_at DESC, id DESC);
CREATE INDEX command_task ON command (task_id);
CREATE INDEX command_mac ON command (tenant, mac, created_at, id) WHERE state = 'pending' AND mac IS NOT NULL;
CREATE INDEX command_object ON command (tenant, object, created_at, id) WHERE state = 'pending' AND object IS NOT NULL;

CREATE TABLE command_policy (
    tenant text NOT NULL REFERENCES tenant,
    id text NOT NULL,
    kind text NOT NULL,
    min_level integer NOT NULL DEFAULT 1,
    max_level integer,
    categories text[] NOT NULL DEFAULT '{}',
    message text NOT NULL DEFAULT '',
    payload jsonb NOT NULL DEFAULT '{}',
    enabled boolean NOT NULL DEFAULT true,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (tenant, id)
);

CREATE TABLE webhook (
    id uuid PRIMARY KEY,
    tenant text NOT NULL REFERENCES tenant,
    url text NOT NULL,
    events text[] NOT NULL,
    enabled boolean NOT NULL DEFAULT true,
    disabled_reason text,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX webhook_tenant ON webhook (tenant, id);

CREATE TABLE webhook_secret (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text NOT NULL REFERENCES tenant,
    webhook_id uuid REFERENCES webhook ON DELETE CASCADE,
    secret text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    retires_at timestamptz
);
CREATE INDEX webhook_secret_owner ON webhook_secret (tenant, webhook_id);

CREATE TABLE webhook_delivery (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    message_id uuid NOT NULL,
    tenant text NOT NULL REFERENCES tenant,
    channel text NOT NULL,
    webhook_id uuid REFERENCES webhook ON DELETE CASCADE,
    url text,
    task_id uuid REFERENCES task ON DELETE SET NULL,
    event text NOT NULL,
    body jsonb NOT NULL,
    state text NOT NULL DEFAULT 'pending',
    attempts integer NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    queued_at timestamptz NOT NULL DEFAULT now(),
    next_at timestamptz NOT NULL DEFAULT now(),
    done_at timestamptz,
    last_status integer,
    last_error text,
    CHECK (webhook_id IS NOT NULL OR url IS NOT NULL)
);
CREATE UNIQUE INDEX webhook_delivery_message ON webhook_delivery (message_id, channel);
CREATE INDEX webhook_delivery_due ON webhook_delivery (channel, next_at) WHERE state = 'pending';
CREATE INDEX webhook_delivery_age ON webhook_delivery (queued_at) WHERE state = 'pending';
CREATE INDEX webhook_delivery_tenant ON webhook_delivery (tenant, created_at DESC, id DESC);
CREATE INDEX webhook_delivery_dead ON webhook_delivery (tenant, created_at DESC, id DESC) WHERE state = 'dead';
CREATE INDEX webhook_delivery_webhook ON webhook_delivery (webhook_id) WHERE webhook_id IS NOT NULL;
CREATE INDEX webhook_delivery_task ON webhook_delivery (task_id) WHERE task_id IS NOT NULL;

CREATE TABLE webhook_total (
    outcome text PRIMARY KEY,
    count bigint NOT NULL DEFAULT 0
)
"""

# A task ends in many places, and each of them has to tell its callback in the same transaction: the table itself sees
# to it, so that none can forget. The channel is what shares a limit of concurrent requests: one webhook, or one host.
CALLBACK = r"""
CREATE FUNCTION queue_callback() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    judged record;
BEGIN
    SELECT coalesce(max(hit_count), 0) AS hits, coalesce(max(top_level), 0) AS level INTO judged
    FROM detection WHERE task_id = NEW.id AND state = 'success';
    INSERT INTO webhook_delivery (message_id, tenant, channel, url, task_id, event, body)
    VALUES (
        NEW.id, NEW.tenant, 'callback/' || NEW.tenant || '/' || substring(NEW.callback_url FROM '//([^/?#]*)'),
        NEW.callback_url, NEW.id, 'task.' || NEW.state,
        jsonb_build_object(
            'type', 'task.' || NEW.state,
            'timestamp', to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
            'data', jsonb_build_object(
                'task_id', NEW.id, 'state', NEW.state, 'kind', NEW.kind, 'lane', NEW.lane, 'mac', NEW.mac,
                'object', NEW.object, 'hit_count', judged.hits, 'top_level', judged.level,
                'error', CASE WHEN NEW.state <> 'succeeded' AND NEW.error_reason IS NOT NULL
                         THEN jsonb_build_object('reason', NEW.error_reason, 'detail', NEW.error_detail) END)))
    ON CONFLICT (message_id, channel) DO NOTHING;
    RETURN NULL;
END $$
"""

CALLBACK_TRIGGER = """
CREATE TRIGGER task_ended AFTER UPDATE OF state ON task FOR EACH ROW
WHEN (NEW.callback_url IS NOT NULL AND OLD.state IN ('queued', 'running') AND NEW.state NOT IN ('queued', 'running'))
EXECUTE FUNCTION queue_callback()
"""

COMMAND = r"""
CREATE FUNCTION queue_command() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO webhook_delivery (message_id, tenant, channel, webhook_id, task_id, event, body)
    SELECT NEW.id, NEW.tenant, w.id::text, w.id, NEW.task_id, 'command.' || NEW.kind,
        jsonb_build_object(
            'type', 'command.' || NEW.kind,
            'timestamp', to_char(NEW.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
            'data', jsonb_build_object(
                'command_id', NEW.id, 'task_id', NEW.task_id, 'kind', NEW.kind, 'policy', NEW.policy,
                'level', NEW.level, 'mac', NEW.mac, 'object', NEW.object) || NEW.body)
    FROM webhook w WHERE w.tenant = NEW.tenant AND w.enabled AND 'command.' || NEW.kind = ANY (w.events)
    ON CONFLICT (message_id, channel) DO NOTHING;
    PERFORM pg_notify('detectsched_command', CASE WHEN NEW.mac IS NOT NULL THEN 'mac:' || NEW.tenant || ':' || NEW.mac
                                             ELSE 'object:' || NEW.tenant || ':' || NEW.object END);
    RETURN NULL;
END $$
"""

COMMAND_TRIGGER = """
CREATE TRIGGER command_written AFTER INSERT ON command FOR EACH ROW EXECUTE FUNCTION queue_command()
"""

# The same words twice in one transaction are told once.
WAKE = """
CREATE FUNCTION wake_relay() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('detectsched_webhook', '');
    RETURN NULL;
END $$
"""

WAKE_TRIGGER = """
CREATE TRIGGER webhook_delivery_queued AFTER INSERT ON webhook_delivery FOR EACH ROW EXECUTE FUNCTION wake_relay()
"""


def upgrade() -> None:
    for statement in filter(None, map(str.strip, TABLES.split(";\n"))):
        op.execute(statement)
    for statement in (CALLBACK, CALLBACK_TRIGGER, COMMAND, COMMAND_TRIGGER, WAKE, WAKE_TRIGGER):
        op.execute(statement)


def downgrade() -> None:
    op.execute("DROP TRIGGER task_ended ON task")
    op.execute("DROP TRIGGER command_written ON command")
    op.execute("DROP TABLE webhook_total, webhook_delivery, webhook_secret, webhook, command_policy")
    op.execute("DROP FUNCTION queue_callback, queue_command, wake_relay")
    op.execute("DROP INDEX command_tenant, command_task, command_mac, command_object")
    op.execute("ALTER TABLE command DROP COLUMN policy, DROP COLUMN level")
    op.execute("ALTER TABLE command ADD COLUMN attempts integer NOT NULL DEFAULT 0")
    op.execute("ALTER TABLE command ADD COLUMN next_at timestamptz NOT NULL DEFAULT now()")
    op.execute("CREATE INDEX command_due ON command (next_at) WHERE state = 'pending'")
    op.execute("ALTER TABLE task DROP COLUMN callback_url, DROP COLUMN request_id")
