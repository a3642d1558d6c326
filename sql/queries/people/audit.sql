-- The audit log of what people did in the dashboard.

-- name: add
-- No row: the form with this id was submitted before and has taken effect.
INSERT INTO audit (audit_id, account_id, email, at, action, subject, facts, address_hash, request_id)
VALUES (:audit_id, :account_id, :email, :at, :action, :subject, :facts, :address_hash, :request_id)
ON CONFLICT (audit_id) DO NOTHING
RETURNING audit_id;

-- name: page
-- both ways
-- Index audit_of_account.
SELECT at, audit_id AS id, email, action, subject, facts, address_hash FROM audit
WHERE account_id = :account_id AND (at, audit_id) {<} (:at, :id)
ORDER BY at {DESC}, audit_id {DESC}
LIMIT :limit;

-- name: on_subject
-- Index audit_of_subject: what staff did to one merchant.
SELECT at, audit_id AS id, email, action, subject, facts, address_hash FROM audit
WHERE account_id = :account_id AND subject = :subject
ORDER BY at DESC, audit_id DESC
LIMIT :limit;

-- name: has_done
-- Whether this member of staff ever did one of these actions to the merchant. Index audit_of_subject.
SELECT EXISTS (
    SELECT FROM audit
    WHERE account_id = :account_id AND subject = :subject AND email = :email AND action = ANY(:actions::text[])
) AS done;

-- name: who
-- The person behind a journal row whose actor is the id of an entry of this log.
SELECT audit_id, email FROM audit WHERE audit_id = ANY(:audit_ids::uuid[]) AND account_id = :account_id;
