-- Creates two roles for the database of QWED_MCP_STORE. qwed_owner owns the tables. Servers use qwed_server, which can
-- append to the audit log, create and revoke tokens, and place, run and remove background jobs. It cannot change a row of
-- the log, restore a revoked token, or change the owner, the script or the end of a job.
--
-- Run it once, as a superuser, in an empty database:
--
--     createdb --encoding UTF8 --template template0 qwed
--     psql -d qwed -f deploy/postgres.sql
--     psql -d qwed -c '\password qwed_owner' -c '\password qwed_server'
--
-- Then create the tables. Repeat this before each update of the servers:
--
--     QWED_MCP_STORE=postgres://qwed_owner@HOST/qwed qwed-mcp token list
--
-- The servers, and the people who create tokens, use the other role:
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
    -- Servers need not create tables.
    EXECUTE format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC', current_database());
    IF EXISTS (SELECT FROM pg_namespace WHERE nspname = 'public') THEN
        REVOKE CREATE ON SCHEMA public FROM PUBLIC;
    END IF;
END;
$$;

CREATE SCHEMA IF NOT EXISTS qwed_mcp AUTHORIZATION qwed_owner;
GRANT USAGE ON SCHEMA qwed_mcp TO qwed_server;

-- Default privileges for the tables of qwed_owner. The migrations revoke the privileges that servers do not need.
ALTER DEFAULT PRIVILEGES FOR ROLE qwed_owner IN SCHEMA qwed_mcp
    GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO qwed_server;
ALTER DEFAULT PRIVILEGES FOR ROLE qwed_owner IN SCHEMA qwed_mcp
    GRANT USAGE ON SEQUENCES TO qwed_server;
ALTER DEFAULT PRIVILEGES FOR ROLE qwed_owner REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;
