-- Background jobs, which any replica runs and any replica answers for.
CREATE TABLE qwed_mcp.jobs (
    id uuid PRIMARY KEY,
    -- The order of arrival.
    seq bigint GENERATED ALWAYS AS IDENTITY,
    -- Whose it is; empty where nobody is known.
    user_name text NOT NULL,
    -- 0 waits, 1 runs, 2 has ended.
    state smallint NOT NULL DEFAULT 0 CHECK (state BETWEEN 0 AND 2),
    -- How often it was handed out: what runs was handed out and written down before.
    attempt smallint NOT NULL DEFAULT 0,
    -- The order of hand-outs.
    claim bigint,
    -- The process that has it, or had it to its end, and what admins call it.
    worker uuid,
    worker_name text,
    -- Until then nobody takes it for lost.
    lease timestamptz,
    -- Somebody wants it to end.
    is_cancelled boolean NOT NULL DEFAULT false,
    -- What it is run with; nothing of it is kept when it has ended.
    script bytea,
    asked_by text,
    -- The decision that permits it, as JSON.
    verification_id text NOT NULL,
    decision text NOT NULL,
    -- What came of it: JSON, and what was printed and drawn beside it.
    result text,
    stdout bytea,
    stderr bytea,
    pictures bytea[],
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

CREATE INDEX jobs_waiting ON qwed_mcp.jobs (user_name, seq) WHERE state = 0;
CREATE INDEX jobs_running ON qwed_mcp.jobs (user_name) WHERE state = 1;
CREATE INDEX jobs_claims ON qwed_mcp.jobs (user_name, claim) WHERE claim IS NOT NULL;
CREATE INDEX jobs_changed ON qwed_mcp.jobs (changed_at);
CREATE SEQUENCE qwed_mcp.claims;
