-- Only the triggers count the bytes that are kept for each user: a role that could write the counts could lock a user
-- out, or give one all of the disk. The functions have the owner's rights for that, so each refuses every other table.

CREATE OR REPLACE FUNCTION qwed_mcp.job_bytes_are_added() RETURNS trigger
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

CREATE OR REPLACE FUNCTION qwed_mcp.job_bytes_are_removed() RETURNS trigger
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

REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA qwed_mcp FROM PUBLIC;

CREATE TRIGGER jobs_begin_without_bytes BEFORE INSERT ON qwed_mcp.jobs FOR EACH ROW
    WHEN (NEW.kept_bytes <> 0)
    EXECUTE FUNCTION qwed_mcp.is_refused('a job begins by waiting, without output');
-- Whichever part of the output there is, it counts.
DROP TRIGGER job_bytes_are_added ON qwed_mcp.jobs;
CREATE TRIGGER job_bytes_are_added BEFORE UPDATE ON qwed_mcp.jobs FOR EACH ROW
    WHEN (OLD.state < 2 AND NEW.state = 2
        AND (NEW.stdout IS NOT NULL OR NEW.stderr IS NOT NULL OR NEW.pictures IS NOT NULL))
    EXECUTE FUNCTION qwed_mcp.job_bytes_are_added();

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
