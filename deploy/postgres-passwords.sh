#!/bin/sh
# Gives the roles of postgres.sql the passwords of the environment. The image of PostgreSQL carries it out once, when it
# makes the database (compose.yaml). Needs psql 15 or later.
set -eu
: "${QWED_OWNER_PASSWORD:?}" "${QWED_SERVER_PASSWORD:?}"
# psql reads the environment itself: arguments are seen by other processes.
psql -X -v ON_ERROR_STOP=1 -U "$POSTGRES_USER" -d "$POSTGRES_DB" <<'SQL'
\getenv owner QWED_OWNER_PASSWORD
\getenv server QWED_SERVER_PASSWORD
ALTER ROLE qwed_owner PASSWORD :'owner';
ALTER ROLE qwed_server PASSWORD :'server';
SQL
