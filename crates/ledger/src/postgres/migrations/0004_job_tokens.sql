-- The proof of the caller of each job, which is checked again when the job starts: the number of a token, or the
-- time at which an access token expires. Both are empty for jobs that were placed without a token.
ALTER TABLE qwed_mcp.jobs ADD COLUMN token_id bigint, ADD COLUMN token_expires timestamptz;
