-- What the platform's staff looked at of a registration, and what they noted about an account; for them alone.

-- name: check
-- Looked at again, it is theirs who did so last.
INSERT INTO registration_check (account_id, item, seen, checked_by, checked_at)
VALUES (:account_id, :item, :seen, :by, :now)
ON CONFLICT (account_id, item) DO UPDATE
SET seen = excluded.seen, checked_by = excluded.checked_by, checked_at = excluded.checked_at;

-- name: uncheck
DELETE FROM registration_check WHERE account_id = :account_id AND item = :item;

-- name: checks
SELECT item, seen, checked_by, checked_at FROM registration_check WHERE account_id = :account_id ORDER BY item;

-- name: note
INSERT INTO account_note (note_id, account_id, written_at, written_by, text)
VALUES (:note_id, :account_id, :now, :by, :text);

-- name: notes
-- account_note_account; the latest first.
SELECT written_at, written_by, text FROM account_note WHERE account_id = :account_id
ORDER BY written_at DESC, note_id DESC LIMIT :limit;
