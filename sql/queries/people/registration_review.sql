-- The staff's checks of a registration and their notes about an account; visible to staff only.

-- name: check
-- A repeated check belongs to the person who made it last.
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
-- Index account_note_account, latest first.
SELECT written_at, written_by, text FROM account_note WHERE account_id = :account_id
ORDER BY written_at DESC, note_id DESC LIMIT :limit;
