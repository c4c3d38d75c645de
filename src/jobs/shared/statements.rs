//! The SQL of background jobs. Each statement is a transaction of its own.
//!
//! All times come from the database's clock, because the clocks of replicas may differ.

/// Inserts a job, unless a limit is reached or the job exists.
///
/// Parameters: id, user, script, request metadata, verification id, decision, maximum length of the user's queue,
/// maximum length of all queues together, maximum size on disk in bytes, whether to notify other replicas, id of the
/// token that proves the user, expiry of the access token that proves the user, maximum size of the user's stored
/// output in bytes, the script's `Subject` as JSON. At least one of the token id and the expiry is null.
///
/// Returns the length of the user's queue, the length of all queues together, the size on disk, the time of creation, a
/// count that only makes PostgreSQL evaluate the notification, and the size of the user's stored output. The time of
/// creation is null if no job was inserted.
pub(super) const PLACE: &str = "
WITH own AS MATERIALIZED (
    SELECT count(*) AS n FROM (SELECT FROM jobs WHERE state = 0 AND user_name = $2 LIMIT $7) AS bounded
), waiting AS MATERIALIZED (
    SELECT count(*) AS n FROM (SELECT FROM jobs WHERE state = 0 LIMIT $8) AS bounded
), disk AS MATERIALIZED (
    SELECT pg_total_relation_size('jobs') AS bytes
), kept AS MATERIALIZED (
    SELECT coalesce((SELECT bytes FROM job_bytes WHERE user_name = $2), 0) AS bytes
), placed AS (
    INSERT INTO jobs (id, user_name, script, asked_by, verification_id, decision, token_id, token_expires, subject)
    SELECT $1::uuid, $2::text, $3::bytea, $4::text, $5::text, $6::text, $11::bigint, $12::timestamptz, $14::text
    FROM own, waiting, disk, kept
    WHERE own.n < $7 AND waiting.n < $8 AND disk.bytes < $9 AND kept.bytes < $13
    ON CONFLICT (id) DO NOTHING
    RETURNING created_at
), told AS MATERIALIZED (
    SELECT pg_notify('qwed_mcp_jobs', 'new')::text AS nothing FROM placed WHERE $10
)
SELECT own.n, waiting.n, disk.bytes, (SELECT created_at FROM placed), (SELECT count(nothing) FROM told),
    kept.bytes
FROM own, waiting, disk, kept";

/// Tests whether a job could be inserted. Inserts a job and rolls the insertion back to a savepoint. The transaction
/// still commits to disk, so this statement fails if the disk is full.
pub(super) const REHEARSE: &str = "
DO $$ BEGIN
    INSERT INTO qwed_mcp.jobs (id, user_name, script, asked_by, verification_id, decision)
    VALUES (md5('rehearsal ' || pg_backend_pid())::uuid, '', '', '', '', '');
    RAISE EXCEPTION SQLSTATE 'QW001';
EXCEPTION WHEN SQLSTATE 'QW001' THEN NULL;
END $$";

/// Returns a job that has not expired, and the size of its output. Does not read output that is larger than the limit.
/// The size of stdout and stderr is exact. The size of plots is their size on disk. PostgreSQL determines both sizes
/// without reading the values.
///
/// Parameters: id, user, lifetime of a job in seconds, maximum size of the output in bytes.
pub(super) const FIND: &str = "
SELECT state, attempt, verification_id, decision, subject, created_at, changed_at, result, bytes,
    CASE WHEN bytes <= $4 THEN stdout END AS stdout, CASE WHEN bytes <= $4 THEN stderr END AS stderr,
    CASE WHEN bytes <= $4 THEN pictures END AS pictures
FROM jobs CROSS JOIN LATERAL (
    SELECT coalesce(octet_length(stdout), 0)::bigint + coalesce(octet_length(stderr), 0)
        + coalesce(pg_column_size(pictures), 0) AS bytes
) AS sizes
WHERE id = $1 AND user_name = $2 AND changed_at > clock_timestamp() - make_interval(secs => $3)";

/// Cancels a queued job, or notifies the worker of a running job. Returns whether the job exists. Parameters: id, user.
pub(super) const CANCEL: &str = "
WITH cancelled AS (
    UPDATE jobs SET is_cancelled = true,
        state = CASE state WHEN 0 THEN 2 ELSE state END,
        result = CASE state WHEN 0 THEN '\"Cancelled\"' ELSE result END,
        script = CASE state WHEN 0 THEN NULL ELSE script END,
        asked_by = CASE state WHEN 0 THEN NULL ELSE asked_by END,
        changed_at = CASE state WHEN 0 THEN clock_timestamp() ELSE changed_at END
    WHERE id = $1 AND user_name = $2 AND state < 2
    RETURNING state
), told AS MATERIALIZED (
    SELECT pg_notify('qwed_mcp_jobs', 'cancel ' || $1::uuid)::text AS nothing FROM cancelled WHERE state = 1
)
SELECT EXISTS (SELECT FROM jobs WHERE id = $1 AND user_name = $2), (SELECT count(nothing) FROM told)";

/// Claims jobs for a worker and stores the claim. Parameters: id of the worker, name of the worker, maximum number of
/// jobs, lease in seconds, lifetime of a job in seconds.
///
/// Users take turns. The user with the fewest running jobs comes first. Among users with equally many running jobs,
/// the user whose last claim is oldest comes first. The statement selects candidates without locks. It then takes the
/// first candidates that no other transaction has locked.
pub(super) const CLAIM: &str = "
WITH RECURSIVE users AS (
    (SELECT user_name FROM jobs WHERE state = 0 ORDER BY user_name LIMIT 1)
    UNION ALL
    SELECT (
        SELECT next.user_name FROM jobs AS next
        WHERE next.state = 0 AND next.user_name > users.user_name ORDER BY next.user_name LIMIT 1
    ) FROM users WHERE users.user_name IS NOT NULL
), shares AS (
    SELECT user_name,
        (SELECT count(*) FROM jobs AS own WHERE own.state = 1 AND own.user_name = users.user_name) AS running,
        (SELECT max(claim) FROM jobs AS own WHERE own.user_name = users.user_name AND claim IS NOT NULL) AS turn
    FROM users WHERE user_name IS NOT NULL
), candidates AS MATERIALIZED (
    SELECT own.id, running + place AS share, turn, own.seq FROM shares CROSS JOIN LATERAL (
        SELECT id, seq, row_number() OVER (ORDER BY seq) AS place FROM jobs
        WHERE state = 0 AND user_name = shares.user_name
            AND changed_at > clock_timestamp() - make_interval(secs => $5)
        ORDER BY seq LIMIT $3::bigint * 4
    ) AS own
    ORDER BY share, turn NULLS FIRST, own.seq LIMIT $3::bigint * 8
), taken AS MATERIALIZED (
    SELECT jobs.id FROM candidates JOIN jobs ON jobs.id = candidates.id WHERE jobs.state = 0
    ORDER BY share, turn NULLS FIRST, candidates.seq LIMIT $3::bigint FOR UPDATE OF jobs SKIP LOCKED
)
UPDATE jobs SET state = 1, attempt = attempt + 1, claim = nextval('claims'), worker = $1, worker_name = $2,
    lease = clock_timestamp() + make_interval(secs => $4), changed_at = clock_timestamp()
FROM taken WHERE jobs.id = taken.id AND jobs.state = 0
RETURNING jobs.id, jobs.user_name, jobs.script, jobs.asked_by, jobs.verification_id, jobs.token_id, jobs.token_expires";

/// Renews the lease of the jobs that a worker runs. Parameters: id of the worker, ids of the jobs that it runs, lease
/// in seconds.
///
/// If the table assigns a job to this worker, but the job's id is not among the parameters, then the worker did not
/// receive the reply to its claim, and the job never started. This statement returns such a job to the queue, or ends
/// the job if it was cancelled. Returns the jobs that the worker still owns, and for each job whether it was cancelled.
pub(super) const RENEW: &str = "
WITH renewed AS (
    UPDATE jobs SET lease = clock_timestamp() + make_interval(secs => $3)
    WHERE state = 1 AND worker = $1 AND id = ANY($2) RETURNING id, is_cancelled
), released AS (
    UPDATE jobs SET worker = NULL, worker_name = NULL, lease = NULL, changed_at = clock_timestamp(),
        state = CASE WHEN is_cancelled THEN 2 ELSE 0 END,
        result = CASE WHEN is_cancelled THEN '\"Cancelled\"' END,
        script = CASE WHEN is_cancelled THEN NULL ELSE script END,
        asked_by = CASE WHEN is_cancelled THEN NULL ELSE asked_by END
    WHERE state = 1 AND worker = $1 AND NOT id = ANY($2)
)
SELECT id, is_cancelled FROM renewed";

/// Stores the end of a job, if the worker still owns it. Parameters: id, worker, result, stdout, stderr, plots.
pub(super) const FINISH: &str = "
UPDATE jobs SET state = 2, lease = NULL, script = NULL, asked_by = NULL, result = $3, stdout = $4, stderr = $5,
    pictures = $6, changed_at = clock_timestamp()
WHERE id = $1 AND worker = $2 AND state = 1";

/// Returns a row if this worker has stored the end of a job. Parameters: id, worker.
pub(super) const IS_FINISHED: &str = "SELECT FROM jobs WHERE id = $1 AND worker = $2 AND state = 2";

/// Ends jobs with an expired lease. Parameter: lease in seconds.
///
/// Changes nothing if this connection to the database is newer than the duration of a lease. After an outage of the
/// database, all connections are new. The other workers then have the duration of a lease to reconnect and renew their
/// leases.
pub(super) const SWEEP: &str = "
UPDATE jobs SET state = 2, result = json_build_object('Lost', worker_name)::text, worker = NULL, lease = NULL,
    script = NULL, asked_by = NULL, changed_at = clock_timestamp()
WHERE state = 1 AND lease < clock_timestamp() AND (
    SELECT backend_start < clock_timestamp() - make_interval(secs => $1) FROM pg_stat_get_activity(pg_backend_pid())
)
RETURNING id, worker_name";

/// The maximum number of jobs that [`EXPIRE`] removes.
pub(super) const EXPIRED_MAX: u64 = 1000;

/// Removes at most [`EXPIRED_MAX`] expired jobs. Parameter: lifetime of a job in seconds.
pub(super) const EXPIRE: &str = "
DELETE FROM jobs WHERE id IN (
    SELECT id FROM jobs WHERE changed_at < clock_timestamp() - make_interval(secs => $1)
    ORDER BY changed_at LIMIT 1000 FOR UPDATE SKIP LOCKED
)";

/// Returns the number of waiting jobs, of running jobs and of ended jobs. Computes the last number from the number of
/// all jobs, which PostgreSQL can count in any index of the table.
pub(super) const COUNT: &str = "
WITH counts AS MATERIALIZED (
    SELECT (SELECT count(*) FROM jobs WHERE state = 0) AS waiting,
        (SELECT count(*) FROM jobs WHERE state = 1) AS running, (SELECT count(*) FROM jobs) AS total
)
SELECT waiting, running, total - waiting - running FROM counts";
