-- Tokens and the audit log, which all replicas share. Times are RFC 3339 in UTC with microseconds, so sorting their
-- bytes also sorts the times.

CREATE TABLE qwed_mcp.tokens (
    -- An id is never used twice, so a revoked id stays revoked.
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- SHA-256 of the token's text. The text itself is not stored.
    hash bytea NOT NULL UNIQUE CHECK (length(hash) = 32),
    user_name text NOT NULL,
    role text NOT NULL CHECK (role IN ('admin', 'user', 'viewer')),
    created text NOT NULL,
    expires text,
    revoked text
);

CREATE TABLE qwed_mcp.audit (
    -- The name of the replica that owns the chain. Each data folder has one name.
    instance text COLLATE "C" NOT NULL,
    -- 1, 2, 3 and so on in each chain, without gaps.
    seq bigint NOT NULL,
    time text COLLATE "C" NOT NULL,
    run_id text COLLATE "C" NOT NULL,
    event text COLLATE "C" NOT NULL,
    user_name text COLLATE "C",
    tool text COLLATE "C" NOT NULL,
    arguments_hash text COLLATE "C",
    outcome text COLLATE "C" NOT NULL,
    -- A JSON object. The hash covers its exact text.
    details text COLLATE "C" NOT NULL,
    -- The hash of the previous row.
    previous text COLLATE "C" NOT NULL,
    -- SHA-256 of all other fields as canonical JSON.
    hash text COLLATE "C" NOT NULL,
    PRIMARY KEY (instance, seq)
);

CREATE INDEX audit_run ON qwed_mcp.audit (run_id, event);
CREATE INDEX audit_time ON qwed_mcp.audit (time);
-- The runs of a user on a day.
CREATE INDEX audit_quota ON qwed_mcp.audit (user_name, time)
    WHERE event = 'MCP_TOOL_CALL' AND tool = 'run_pytest' AND outcome = 'ALLOWED';

-- The last row of each chain. It reveals the removal of a chain's last rows.
CREATE TABLE qwed_mcp.audit_heads (
    instance text COLLATE "C" PRIMARY KEY,
    seq bigint NOT NULL,
    hash text COLLATE "C" NOT NULL
) WITH (fillfactor = 20);

-- Moves the head with each row. The function has the rights of the owner, because no other role may change a head.
CREATE FUNCTION qwed_mcp.audit_follows_its_head() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF NEW.seq = 1 AND NEW.previous = repeat('0', 64) THEN
        INSERT INTO qwed_mcp.audit_heads (instance, seq, hash) VALUES (NEW.instance, 1, NEW.hash);
        RETURN NEW;
    END IF;
    UPDATE qwed_mcp.audit_heads SET seq = NEW.seq, hash = NEW.hash
    WHERE instance = NEW.instance AND seq = NEW.seq - 1 AND hash = NEW.previous;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'a row of the audit log follows its head';
    END IF;
    RETURN NEW;
END;
$$;

CREATE FUNCTION qwed_mcp.audit_is_only_appended_to() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'the audit log is only ever appended to';
END;
$$;

-- The triggers prevent mistakes of honest programs. The owner of the tables can drop the triggers. The hashes reveal
-- changes that follow.

CREATE TRIGGER audit_follows_its_head BEFORE INSERT ON qwed_mcp.audit
    FOR EACH ROW EXECUTE FUNCTION qwed_mcp.audit_follows_its_head();
CREATE TRIGGER audit_is_not_changed BEFORE UPDATE OR DELETE ON qwed_mcp.audit
    FOR EACH ROW EXECUTE FUNCTION qwed_mcp.audit_is_only_appended_to();
CREATE TRIGGER audit_is_not_emptied BEFORE TRUNCATE ON qwed_mcp.audit
    FOR EACH STATEMENT EXECUTE FUNCTION qwed_mcp.audit_is_only_appended_to();
CREATE TRIGGER audit_heads_stay BEFORE DELETE ON qwed_mcp.audit_heads
    FOR EACH ROW EXECUTE FUNCTION qwed_mcp.audit_is_only_appended_to();
CREATE TRIGGER audit_heads_are_not_emptied BEFORE TRUNCATE ON qwed_mcp.audit_heads
    FOR EACH STATEMENT EXECUTE FUNCTION qwed_mcp.audit_is_only_appended_to();

-- Revokes all other rights, which default privileges may have granted. Other roles may only append to the log and
-- read it, and create and revoke tokens.
DO $$
DECLARE
    kept record;
BEGIN
    FOR kept IN
        SELECT DISTINCT tables.relname, grants.grantee FROM pg_catalog.pg_class AS tables,
            pg_catalog.aclexplode(tables.relacl) AS grants
        WHERE tables.relnamespace = 'qwed_mcp'::regnamespace AND grants.grantee <> tables.relowner
            AND tables.relname IN ('audit', 'audit_heads', 'tokens', 'migrations')
    LOOP
        EXECUTE format(
            'REVOKE %s ON qwed_mcp.%I FROM %s',
            CASE kept.relname
                WHEN 'audit' THEN 'UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER'
                WHEN 'tokens' THEN 'UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER'
                ELSE 'INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER'
            END,
            kept.relname,
            CASE kept.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(kept.grantee)) END
        );
        IF kept.relname = 'tokens' THEN
            EXECUTE format(
                'GRANT UPDATE (revoked) ON qwed_mcp.tokens TO %s',
                CASE kept.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(kept.grantee)) END
            );
        END IF;
    END LOOP;
END;
$$;
