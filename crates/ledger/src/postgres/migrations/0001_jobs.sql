-- Background jobs. Any replica can run a job, and can report its state.
CREATE TABLE qwed_mcp.jobs (
    id uuid PRIMARY KEY,
    -- The order of arrival.
    seq bigint GENERATED ALWAYS AS IDENTITY,
    -- The owner. Empty for callers without authentication.
    user_name text NOT NULL,
    -- 0: waiting, 1: running, 2: ended.
    state smallint NOT NULL DEFAULT 0 CHECK (state BETWEEN 0 AND 2),
    -- How often a worker has claimed the job. A worker claims a job before it runs the job.
    attempt smallint NOT NULL DEFAULT 0,
    -- The order of claims.
    claim bigint,
    -- The last worker that claimed the job, and the worker's name for admins.
    worker uuid,
    worker_name text,
    -- The time until which other workers must not claim the job again.
    lease timestamptz,
    -- Whether a client has cancelled the job.
    is_cancelled boolean NOT NULL DEFAULT false,
    -- The input of the job. Removed when the job ends.
    script bytea,
    asked_by text,
    -- The id of the decision that allows the job, and the decision as JSON.
    verification_id text NOT NULL,
    decision text NOT NULL,
    -- The result as JSON, the output and the pictures.
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
