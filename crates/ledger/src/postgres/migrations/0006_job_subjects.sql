-- The digest of the script of each job and the model that wrote it, as JSON. They stay after the removal of the
-- script, for the Verification Context of a job that ended without a result. Empty for jobs that an earlier version
-- placed.
ALTER TABLE qwed_mcp.jobs ADD COLUMN subject text;
