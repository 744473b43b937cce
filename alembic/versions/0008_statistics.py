"""Statistics that are counted once and for all, reports of devices in full, an audit log that is only appended to.

Revision ID: 0008
Revises: 0007
"""

from __future__ import annotations

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

# Of every counted row: how many, and how long they waited and ran (microseconds, and histograms of db/histogram.py).
MEASURES = """
    tasks bigint NOT NULL DEFAULT 0,
    with_hits bigint NOT NULL DEFAULT 0,
    hits bigint NOT NULL DEFAULT 0,
    timed bigint NOT NULL DEFAULT 0,
    wait_us bigint NOT NULL DEFAULT 0,
    run_us bigint NOT NULL DEFAULT 0,
    waits bigint[] NOT NULL DEFAULT '{}',
    runs bigint[] NOT NULL DEFAULT '{}'
"""

STATISTICS = (
    "DROP TABLE stat_hourly",
    f"""
    CREATE TABLE stat_hourly (
        tenant text NOT NULL, hour timestamptz NOT NULL, lane text NOT NULL, state text NOT NULL, {MEASURES},
        PRIMARY KEY (tenant, hour, lane, state)
    )
    """,
    f"""
    CREATE TABLE stat_device (
        tenant text NOT NULL, hour timestamptz NOT NULL, mac text NOT NULL, lane text NOT NULL, state text NOT NULL,
        {MEASURES},
        PRIMARY KEY (tenant, hour, mac, lane, state)
    )
    """,
    "CREATE INDEX stat_device_mac ON stat_device (tenant, mac, hour)",
    """
    CREATE TABLE stat_word (
        tenant text NOT NULL, hour timestamptz NOT NULL, category text NOT NULL, word text NOT NULL, lane text NOT NULL,
        tasks bigint NOT NULL DEFAULT 0, hits bigint NOT NULL DEFAULT 0,
        PRIMARY KEY (tenant, hour, category, word, lane)
    )
    """,
    """
    CREATE TABLE stat_removed (
        tenant text NOT NULL, hour timestamptz NOT NULL, tasks bigint NOT NULL,
        PRIMARY KEY (tenant, hour)
    )
    """,
    # What has ended and is not counted yet: filled at every end of a task, emptied from its front.
    "CREATE TABLE stat_due (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, task_id uuid, report_id bigint)",
    """
    ALTER TABLE stat_due SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000)
    """,
    "CREATE INDEX task_finished ON task USING brin (finished_at)",
)

REPORTS = (
    """
    ALTER TABLE report
        ADD COLUMN id bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
        ADD COLUMN kind text NOT NULL DEFAULT 'other',
        ADD COLUMN detected_at timestamptz NOT NULL DEFAULT now(),
        ADD COLUMN clock_was_wrong boolean NOT NULL DEFAULT false,
        ADD COLUMN hit_count integer NOT NULL DEFAULT 0,
        ADD COLUMN top_level integer NOT NULL DEFAULT 0,
        ADD COLUMN words text[] NOT NULL DEFAULT '{}',
        ADD COLUMN categories text[] NOT NULL DEFAULT '{}',
        ADD COLUMN request_hash bytea NOT NULL DEFAULT ''
    """,
    "UPDATE report SET detected_at = created_at",
    "CREATE INDEX report_tenant ON report (tenant, id DESC)",
    "CREATE INDEX report_mac ON report (tenant, mac, id DESC)",
)

FEED = (
    """
    CREATE FUNCTION histogram_of(integer[]) RETURNS bigint[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
        SELECT coalesce(array_agg(n ORDER BY bucket), '{}') FROM (
            SELECT bucket, count(value) AS n
            FROM generate_series(0, (SELECT max(value) FROM unnest($1) AS given (value))) AS bucket
            LEFT JOIN unnest($1) AS given (value) ON value = bucket GROUP BY bucket
        ) AS counted
    $$
    """,
    """
    CREATE FUNCTION histogram_add(bigint[], bigint[]) RETURNS bigint[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
        SELECT coalesce(array_agg(coalesce(a, 0) + coalesce(b, 0) ORDER BY place), '{}')
        FROM unnest($1, $2) WITH ORDINALITY AS u (a, b, place)
    $$
    """,
    """
    CREATE AGGREGATE histogram_sum(bigint[]) (
        SFUNC = histogram_add, STYPE = bigint[], INITCOND = '{}', COMBINEFUNC = histogram_add, PARALLEL = SAFE
    )
    """,
    """
    CREATE FUNCTION note_end() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO stat_due (task_id) VALUES (NEW.id);
        RETURN NULL;
    END $$
    """,
    """
    CREATE TRIGGER task_to_be_counted AFTER UPDATE OF state ON task FOR EACH ROW
    WHEN (OLD.state IN ('queued', 'running') AND NEW.state NOT IN ('queued', 'running'))
    EXECUTE FUNCTION note_end()
    """,
    """
    CREATE FUNCTION task_removed() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO stat_removed (tenant, hour, tasks)
        SELECT tenant, date_trunc('hour', finished_at, 'UTC'), count(*) FROM gone
        WHERE finished_at IS NOT NULL GROUP BY 1, 2 ORDER BY 1, 2
        ON CONFLICT (tenant, hour) DO UPDATE SET tasks = stat_removed.tasks + excluded.tasks;
        RETURN NULL;
    END $$
    """,
    """
    CREATE TRIGGER task_removed AFTER DELETE ON task REFERENCING OLD TABLE AS gone FOR EACH STATEMENT
    EXECUTE FUNCTION task_removed()
    """,
    # What had ended before: the trigger's lock keeps writers out until this is committed.
    """
    INSERT INTO stat_due (task_id)
    SELECT id FROM task WHERE state NOT IN ('queued', 'running') AND finished_at IS NOT NULL
    """,
    "INSERT INTO stat_due (report_id) SELECT id FROM report",
)

AUDIT = (
    "DROP INDEX audit_log_tenant",
    "CREATE INDEX audit_log_tenant ON audit_log (tenant, at DESC, id DESC)",
    "CREATE INDEX audit_log_subject ON audit_log (tenant, subject, at DESC, id DESC)",
    """
    CREATE FUNCTION audit_log_stays() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF TG_OP = 'DELETE' AND current_setting('detectsched.audit_retention', true) = 'on' THEN
            RETURN OLD;
        END IF;
        RAISE EXCEPTION 'the audit log is only appended to: % is refused', TG_OP
            USING ERRCODE = 'insufficient_privilege';
    END $$
    """,
    """
    CREATE TRIGGER audit_log_stays BEFORE UPDATE OR DELETE ON audit_log FOR EACH ROW EXECUTE FUNCTION audit_log_stays()
    """,
    """
    CREATE TRIGGER audit_log_is_not_emptied BEFORE TRUNCATE ON audit_log FOR EACH STATEMENT
    EXECUTE FUNCTION audit_log_stays()
    """,
)

BACK = (
    "DROP TRIGGER audit_log_is_not_emptied ON audit_log",
    "DROP TRIGGER audit_log_stays ON audit_log",
    "DROP FUNCTION audit_log_stays",
    "DROP INDEX audit_log_subject",
    "DROP INDEX audit_log_tenant",
    "CREATE INDEX audit_log_tenant ON audit_log (tenant, id DESC)",
    "DROP TRIGGER task_removed ON task",
    "DROP FUNCTION task_removed",
    "DROP TRIGGER task_to_be_counted ON task",
    "DROP FUNCTION note_end",
    "DROP AGGREGATE histogram_sum(bigint[])",
    "DROP FUNCTION histogram_add(bigint[], bigint[])",
    "DROP FUNCTION histogram_of(integer[])",
    """
    ALTER TABLE report DROP COLUMN id, DROP COLUMN kind, DROP COLUMN detected_at, DROP COLUMN clock_was_wrong,
        DROP COLUMN hit_count, DROP COLUMN top_level, DROP COLUMN words, DROP COLUMN categories,
        DROP COLUMN request_hash
    """,
    "DROP INDEX IF EXISTS report_tenant, report_mac",
    "DROP INDEX task_finished",
    "DROP TABLE stat_due, stat_removed, stat_word, stat_device, stat_hourly",
    """
    CREATE TABLE stat_hourly (
        tenant text NOT NULL, hour timestamptz NOT NULL, lane text NOT NULL, state text NOT NULL,
        tasks bigint NOT NULL DEFAULT 0, hits bigint NOT NULL DEFAULT 0,
        wait_seconds double precision NOT NULL DEFAULT 0, run_seconds double precision NOT NULL DEFAULT 0,
        PRIMARY KEY (tenant, hour, lane, state)
    )
    """,
)


def upgrade() -> None:
    for statement in (*STATISTICS, *REPORTS, *FEED, *AUDIT):
        op.execute(statement)


def downgrade() -> None:
    for statement in BACK:
        op.execute(statement)
