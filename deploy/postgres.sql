-- Two roles for the database of QWED_MCP_STORE: qwed_owner owns the tables, and servers are qwed_server, which
-- can append to the audit log, make and revoke tokens, and place, run and remove background jobs. It can change no row
-- of the log, give no revoked token back, and change neither the owner, the script nor the end of a job.
--
-- Run it once, as a superuser, in an empty database:
--
--     createdb qwed
--     psql -d qwed -f deploy/postgres.sql
--     psql -d qwed -c '\password qwed_owner' -c '\password qwed_server'
--
-- Then make the tables, and again after each update of qwed-mcp before the servers are updated:
--
--     QWED_MCP_STORE=postgres://qwed_owner@HOST/qwed qwed-mcp token list
--
-- and give the servers and whoever makes tokens the other role:
--
--     QWED_MCP_STORE=postgres://qwed_server:PASSWORD@HOST/qwed

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'qwed_owner') THEN
        CREATE ROLE qwed_owner LOGIN;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'qwed_server') THEN
        CREATE ROLE qwed_server LOGIN;
    END IF;
    EXECUTE format('GRANT CREATE ON DATABASE %I TO qwed_owner', current_database());
    -- Servers need no tables of their own.
    EXECUTE format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC', current_database());
    IF EXISTS (SELECT FROM pg_namespace WHERE nspname = 'public') THEN
        REVOKE CREATE ON SCHEMA public FROM PUBLIC;
    END IF;
END;
$$;

CREATE SCHEMA IF NOT EXISTS qwed_mcp AUTHORIZATION qwed_owner;
GRANT USAGE ON SCHEMA qwed_mcp TO qwed_server;

-- Of the tables that qwed_owner will make. The tables take back what servers do not need.
ALTER DEFAULT PRIVILEGES FOR ROLE qwed_owner IN SCHEMA qwed_mcp
    GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO qwed_server;
ALTER DEFAULT PRIVILEGES FOR ROLE qwed_owner IN SCHEMA qwed_mcp
    GRANT USAGE ON SEQUENCES TO qwed_server;
ALTER DEFAULT PRIVILEGES FOR ROLE qwed_owner REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;
