-- The proof of each job's caller: the number of a token, or the expiry of an access token. The server checks the
-- proof again when the job starts. Both columns are empty for jobs that were placed without a token.
ALTER TABLE qwed_mcp.jobs ADD COLUMN token_id bigint, ADD COLUMN token_expires timestamptz;
