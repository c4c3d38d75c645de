-- The bytes of stored output of each user, which limit the user to a share of the disk. The database counts the bytes
-- itself, because replicas of an earlier version also finish and remove jobs. Only the triggers may write the counts:
-- a role that could write them could lock out a user, or give a user the whole disk. So the functions have the rights
-- of the owner, and each function refuses every other table.

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

-- Locks the counts in the order of the users. This order prevents a deadlock of two statements that remove jobs at
-- the same time.
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
-- Only the statement that finishes a job adds output, so each transaction waits for at most one user's count.
CREATE TRIGGER job_bytes_are_added BEFORE UPDATE ON qwed_mcp.jobs FOR EACH ROW
    WHEN (OLD.state < 2 AND NEW.state = 2
        AND (NEW.stdout IS NOT NULL OR NEW.stderr IS NOT NULL OR NEW.pictures IS NOT NULL))
    EXECUTE FUNCTION qwed_mcp.job_bytes_are_added();
CREATE TRIGGER job_bytes_are_removed AFTER DELETE ON qwed_mcp.jobs
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT
    EXECUTE FUNCTION qwed_mcp.job_bytes_are_removed();

-- Triggers call these functions without this right, and no role needs to call them directly.
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA qwed_mcp FROM PUBLIC;

-- Revokes rights that default privileges have granted on the new table, as in deploy/postgres.sql.
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
