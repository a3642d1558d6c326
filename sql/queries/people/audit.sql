-- What people did in the dashboard.

-- name: add
-- No row: the form with this id was submitted before, and what it asked for is done.
INSERT INTO audit (audit_id, account_id, email, at, action, subject, facts, address_hash, request_id)
VALUES (:audit_id, :account_id, :email, :at, :action, :subject, :facts, :address_hash, :request_id)
ON CONFLICT (audit_id) DO NOTHING
RETURNING audit_id;

-- name: page
-- both ways
-- audit_of_account.
SELECT at, audit_id AS id, email, action, subject, facts, address_hash FROM audit
WHERE account_id = :account_id AND (at, audit_id) {<} (:at, :id)
ORDER BY at {DESC}, audit_id {DESC}
LIMIT :limit;

-- name: on_subject
-- audit_of_subject: what staff did to one merchant.
SELECT at, audit_id AS id, email, action, subject, facts, address_hash FROM audit
WHERE account_id = :account_id AND subject = :subject
ORDER BY at DESC, audit_id DESC
LIMIT :limit;

-- name: has_done
-- Whether this member of the staff ever did one of these to the merchant: audit_of_subject.
SELECT EXISTS (
    SELECT FROM audit
    WHERE account_id = :account_id AND subject = :subject AND email = :email AND action = ANY(:actions::text[])
) AS done;

-- name: who
-- Who an actor of the journal is, when it is named by the id of an entry of this log.
SELECT audit_id, email FROM audit WHERE audit_id = ANY(:audit_ids::uuid[]) AND account_id = :account_id;
