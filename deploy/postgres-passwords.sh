#!/bin/sh
# Sets the passwords of the roles of postgres.sql from the environment. The image of PostgreSQL runs this script once, when
# it creates the database (compose.yaml). Needs psql 15 or later.
set -eu
: "${QWED_OWNER_PASSWORD:?}" "${QWED_SERVER_PASSWORD:?}"
# psql reads the passwords from the environment, because other processes can read arguments.
psql -X -v ON_ERROR_STOP=1 -U "$POSTGRES_USER" -d "$POSTGRES_DB" <<'SQL'
\getenv owner QWED_OWNER_PASSWORD
\getenv server QWED_SERVER_PASSWORD
ALTER ROLE qwed_owner PASSWORD :'owner';
ALTER ROLE qwed_server PASSWORD :'server';
SQL
