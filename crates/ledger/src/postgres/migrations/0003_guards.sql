-- Limits the rights of roles other than the owner. The role of servers uses all tables, but should be able to make
-- only the changes that a server makes.

-- Refuses a change, with the reason in the trigger's argument.
CREATE FUNCTION qwed_mcp.is_refused() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION '%', TG_ARGV[0];
END;
$$;

-- Moves the head with each row of the audit log. The function has the rights of the owner, so it refuses every other
-- table. Otherwise a role could move any head with a trigger on its own table. The function also checks that the
-- row's hash is the hash of its content, as in `AuditRow::content_hash`. A wrong hash would break the chain for ever,
-- because the next row must contain it. Canonical JSON is ASCII.
CREATE OR REPLACE FUNCTION qwed_mcp.audit_follows_its_head() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    content text;
BEGIN
    IF TG_RELID <> 'qwed_mcp.audit'::regclass THEN
        RAISE EXCEPTION 'only rows of the audit log move its heads';
    END IF;
    IF NEW.seq = 1 AND NEW.previous = repeat('0', 64) THEN
        INSERT INTO qwed_mcp.audit_heads (instance, seq, hash) VALUES (NEW.instance, 1, NEW.hash);
    ELSE
        UPDATE qwed_mcp.audit_heads SET seq = NEW.seq, hash = NEW.hash
        WHERE instance = NEW.instance AND seq = NEW.seq - 1 AND hash = NEW.previous;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'a row of the audit log follows its head';
        END IF;
    END IF;
    content := '{"arguments_hash":' || coalesce(to_json(NEW.arguments_hash)::text, 'null')
        || ',"details":' || to_json(NEW.details) || ',"event":' || to_json(NEW.event)
        || ',"instance":' || to_json(NEW.instance) || ',"outcome":' || to_json(NEW.outcome)
        || ',"previous":' || to_json(NEW.previous) || ',"run_id":' || to_json(NEW.run_id)
        || ',"seq":' || NEW.seq || ',"time":' || to_json(NEW.time) || ',"tool":' || to_json(NEW.tool)
        || ',"user":' || coalesce(to_json(NEW.user_name)::text, 'null') || '}';
    IF content ~ '[^ -~]' THEN
        SELECT string_agg(
            CASE
                WHEN c BETWEEN 32 AND 126 THEN chr(c)
                WHEN c < 65536 THEN '\u' || lpad(to_hex(c), 4, '0')
                ELSE '\u' || to_hex(55296 + ((c - 65536) >> 10)) || '\u' || to_hex(56320 + ((c - 65536) & 1023))
            END, '' ORDER BY place
        ) INTO content
        FROM (
            SELECT ascii(one), place FROM regexp_split_to_table(content, '') WITH ORDINALITY AS split (one, place)
        ) AS characters (c, place);
    END IF;
    IF NEW.hash <> encode(sha256(convert_to(content, 'UTF8')), 'hex') THEN
        RAISE EXCEPTION 'the hash of a row of the audit log is of its content';
    END IF;
    RETURN NEW;
END;
$$;

-- Triggers call these functions without this right, and no role needs to call them directly.
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA qwed_mcp FROM PUBLIC;

CREATE TRIGGER tokens_are_revoked_once BEFORE UPDATE ON qwed_mcp.tokens FOR EACH ROW
    WHEN (OLD.revoked IS NOT NULL OR NEW.revoked IS NULL
        OR (NEW.id, NEW.hash, NEW.user_name, NEW.role, NEW.created, NEW.expires)
            IS DISTINCT FROM (OLD.id, OLD.hash, OLD.user_name, OLD.role, OLD.created, OLD.expires))
    EXECUTE FUNCTION qwed_mcp.is_refused('a token is revoked once, and nothing else of it changes');

CREATE TRIGGER jobs_begin_by_waiting BEFORE INSERT ON qwed_mcp.jobs FOR EACH ROW
    WHEN (NEW.state <> 0 OR NEW.attempt <> 0 OR NEW.claim IS NOT NULL OR NEW.worker IS NOT NULL
        OR NEW.worker_name IS NOT NULL OR NEW.lease IS NOT NULL OR NEW.is_cancelled OR NEW.script IS NULL
        OR NEW.result IS NOT NULL OR NEW.stdout IS NOT NULL OR NEW.stderr IS NOT NULL
        OR NEW.pictures IS NOT NULL)
    EXECUTE FUNCTION qwed_mcp.is_refused('a job begins by waiting');
CREATE TRIGGER jobs_keep_their_script BEFORE UPDATE OF script, asked_by ON qwed_mcp.jobs FOR EACH ROW
    WHEN (NEW.script IS NULL AND NEW.state < 2
        OR NEW.script IS NOT NULL AND NEW.script IS DISTINCT FROM OLD.script
        OR NEW.asked_by IS NOT NULL AND NEW.asked_by IS DISTINCT FROM OLD.asked_by)
    EXECUTE FUNCTION qwed_mcp.is_refused('a job keeps its script until it ends');
CREATE TRIGGER jobs_end_once BEFORE UPDATE ON qwed_mcp.jobs FOR EACH ROW
    WHEN (OLD.state = 2)
    EXECUTE FUNCTION qwed_mcp.is_refused('a job that has ended stays as it is');

-- Revokes rights that default privileges may have granted. A role with the right to update jobs may update only the
-- columns that a server changes. The owner of a job and its decision never change. A role that may not create tokens
-- may not revoke tokens either.
DO $$
DECLARE
    granted record;
    role_name text;
BEGIN
    FOR granted IN
        SELECT tables.relname, grants.grantee,
            bool_or(grants.privilege_type = 'INSERT') AS may_insert,
            bool_or(grants.privilege_type = 'UPDATE') AS may_update
        FROM pg_catalog.pg_class AS tables, pg_catalog.aclexplode(tables.relacl) AS grants
        WHERE tables.relnamespace = 'qwed_mcp'::regnamespace AND grants.grantee <> tables.relowner
            AND tables.relname IN ('jobs', 'tokens')
        GROUP BY tables.relname, grants.grantee
    LOOP
        role_name := CASE granted.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(granted.grantee)) END;
        IF granted.relname = 'tokens' THEN
            IF NOT granted.may_insert THEN
                EXECUTE format('REVOKE UPDATE (revoked) ON qwed_mcp.tokens FROM %s', role_name);
            END IF;
            CONTINUE;
        END IF;
        EXECUTE format('REVOKE UPDATE, TRUNCATE, REFERENCES, TRIGGER ON qwed_mcp.jobs FROM %s', role_name);
        IF granted.may_update THEN
            EXECUTE format(
                'GRANT UPDATE (state, attempt, claim, worker, worker_name, lease, is_cancelled, script, asked_by, '
                'result, stdout, stderr, pictures, changed_at) ON qwed_mcp.jobs TO %s',
                role_name
            );
        END IF;
    END LOOP;
END;
$$;
