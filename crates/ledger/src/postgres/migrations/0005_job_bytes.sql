-- The bytes of output that are kept for each user, so that one user has no more than a share of the disk. The
-- database counts them itself: replicas of an earlier version finish and remove jobs too. Only the triggers count: a
-- role that could write the counts could lock a user out, or give one all of the disk. The functions have the owner's
-- rights for that, so each refuses every other table.

ALTER TABLE qwed_mcp.jobs ADD COLUMN kept_bytes bigint NOT NULL DEFAULT 0;

CREATE TABLE qwed_mcp.job_bytes (
    user_name text PRIMARY KEY,
    bytes bigint NOT NULL
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE FUNCTION qwed_mcp.job_bytes_are_added() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_RELID <> 'qwed_mcp.jobs'::regclass THEN
        RAISE EXCEPTION 'only jobs have bytes that are counted';
    END IF;
    NEW.kept_bytes := coalesce(octet_length(NEW.stdout), 0)::bigint + coalesce(octet_length(NEW.stderr), 0)
        + coalesce(pg_column_size(NEW.pictures), 0);
    INSERT INTO qwed_mcp.job_bytes AS kept (user_name, bytes) VALUES (NEW.user_name, NEW.kept_bytes)
    ON CONFLICT (user_name) DO UPDATE SET bytes = kept.bytes + excluded.bytes;
    RETURN NEW;
END;
$$;

-- In one order of users, so that two statements that remove jobs at once do not wait for each other for ever.
CREATE FUNCTION qwed_mcp.job_bytes_are_removed() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF TG_RELID <> 'qwed_mcp.jobs'::regclass THEN
        RAISE EXCEPTION 'only jobs have bytes that are counted';
    END IF;
    PERFORM FROM qwed_mcp.job_bytes WHERE user_name IN (SELECT user_name FROM removed WHERE kept_bytes > 0)
    ORDER BY user_name FOR UPDATE;
    UPDATE qwed_mcp.job_bytes AS kept SET bytes = kept.bytes - gone.bytes
    FROM (SELECT user_name, sum(kept_bytes) AS bytes FROM removed WHERE kept_bytes > 0 GROUP BY user_name) AS gone
    WHERE kept.user_name = gone.user_name;
    RETURN NULL;
END;
$$;

CREATE TRIGGER jobs_begin_without_bytes BEFORE INSERT ON qwed_mcp.jobs FOR EACH ROW
    WHEN (NEW.kept_bytes <> 0)
    EXECUTE FUNCTION qwed_mcp.is_refused('a job begins by waiting, without output');
-- Only a statement that finishes one job has output, so each transaction waits for one user at most.
CREATE TRIGGER job_bytes_are_added BEFORE UPDATE ON qwed_mcp.jobs FOR EACH ROW
    WHEN (OLD.state < 2 AND NEW.state = 2
        AND (NEW.stdout IS NOT NULL OR NEW.stderr IS NOT NULL OR NEW.pictures IS NOT NULL))
    EXECUTE FUNCTION qwed_mcp.job_bytes_are_added();
CREATE TRIGGER job_bytes_are_removed AFTER DELETE ON qwed_mcp.jobs
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT
    EXECUTE FUNCTION qwed_mcp.job_bytes_are_removed();

-- As for the other functions of triggers: nobody has to call them.
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA qwed_mcp FROM PUBLIC;

-- What the owner has granted on all tables to come, as deploy/postgres.sql does.
DO $$
DECLARE
    grantee oid;
BEGIN
    FOR grantee IN
        SELECT DISTINCT grants.grantee FROM pg_catalog.pg_class AS tables, pg_catalog.aclexplode(tables.relacl) AS grants
        WHERE tables.oid = 'qwed_mcp.job_bytes'::regclass AND grants.grantee <> tables.relowner
    LOOP
        EXECUTE format(
            'REVOKE INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER ON qwed_mcp.job_bytes FROM %s',
            CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END
        );
    END LOOP;
END;
$$;
