-- The digest of the script of each job and the model that wrote it, as JSON. They are kept when the script is removed, for
-- the document about a job that ended without a result. Empty for jobs that an earlier version placed.
ALTER TABLE qwed_mcp.jobs ADD COLUMN subject text;
