-- The store of the governed tools, version 1. Times are RFC 3339 in UTC with microseconds.

CREATE TABLE tokens (
    -- An id is never used twice, so a revoked id stays revoked.
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    -- SHA-256 of the token's text. The text itself is not stored.
    hash BLOB NOT NULL UNIQUE CHECK (length(hash) = 32),
    user TEXT NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('admin', 'user', 'viewer')),
    created TEXT NOT NULL,
    expires TEXT,
    revoked TEXT
) STRICT;

CREATE TABLE audit (
    -- 1, 2, 3 and so on, without gaps.
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    time TEXT NOT NULL,
    run_id TEXT NOT NULL,
    event TEXT NOT NULL,
    user TEXT,
    tool TEXT NOT NULL,
    arguments_hash TEXT,
    outcome TEXT NOT NULL,
    -- A JSON object.
    details TEXT NOT NULL,
    -- The hash of the previous row.
    previous TEXT NOT NULL,
    -- SHA-256 of all other fields as canonical JSON.
    hash TEXT NOT NULL
) STRICT;

CREATE INDEX audit_run ON audit (run_id, event);

-- The last row. It reveals the removal of the last rows.
CREATE TABLE audit_head (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    seq INTEGER NOT NULL,
    hash TEXT NOT NULL
) STRICT;

INSERT INTO audit_head (one, seq, hash)
VALUES (1, 0, '0000000000000000000000000000000000000000000000000000000000000000');

-- The triggers prevent mistakes of honest programs. A user with write access to the file can drop the triggers. The
-- hashes reveal changes that follow.

CREATE TRIGGER audit_is_not_changed BEFORE UPDATE ON audit
BEGIN
    SELECT RAISE(ABORT, 'the audit log is only ever appended to');
END;

CREATE TRIGGER audit_is_not_deleted BEFORE DELETE ON audit
BEGIN
    SELECT RAISE(ABORT, 'the audit log is only ever appended to');
END;

CREATE TRIGGER audit_follows_its_head BEFORE INSERT ON audit
WHEN NOT EXISTS (
    SELECT 1 FROM audit_head WHERE seq = NEW.seq - 1 AND hash = NEW.previous
)
BEGIN
    SELECT RAISE(ABORT, 'a row of the audit log follows its head');
END;

CREATE TRIGGER audit_head_is_a_row BEFORE UPDATE ON audit_head
WHEN NEW.seq <> OLD.seq + 1
    OR NOT EXISTS (SELECT 1 FROM audit WHERE seq = NEW.seq AND hash = NEW.hash)
BEGIN
    SELECT RAISE(ABORT, 'the head of the audit log is its last row');
END;

CREATE TRIGGER audit_head_is_not_deleted BEFORE DELETE ON audit_head
BEGIN
    SELECT RAISE(ABORT, 'the head of the audit log is its last row');
END;
