-- Partners and their shares. Old shares are kept, because a charge pays the share in force when it was issued.

-- name: list
-- Each partner with the current share.
SELECT i.integrador_code, i.name, i.account_id, i.active,
       coalesce((SELECT s.share_bps FROM integrator_share s WHERE s.integrador_code = i.integrador_code
                 ORDER BY s.since DESC LIMIT 1), 0) AS share_bps
FROM integrator i
WHERE i.integrador_code > :after
ORDER BY i.integrador_code
LIMIT :limit;

-- name: find
SELECT i.integrador_code, i.name, i.account_id, i.active,
       coalesce((SELECT s.share_bps FROM integrator_share s WHERE s.integrador_code = i.integrador_code
                 ORDER BY s.since DESC LIMIT 1), 0) AS share_bps
FROM integrator i
WHERE i.integrador_code = :integrador_code;

-- name: one_at_a_time
-- Serializes changes until the transaction ends, so that versions of partners are committed in order and a copy misses
-- none.
SELECT pg_advisory_xact_lock(7203415510) IS NOT NULL AS locked;

-- name: has_account
SELECT EXISTS (SELECT FROM account WHERE account_id = :account_id) AS there;

-- name: change
-- A NULL argument leaves its column unchanged.
UPDATE integrator SET active = coalesce(:active, active), account_id = coalesce(:account_id, account_id), version = DEFAULT
WHERE integrador_code = :integrador_code
RETURNING integrador_code;

-- name: set_share
-- No row is written if this share is in force already.
WITH current AS MATERIALIZED (
    SELECT coalesce((SELECT share_bps FROM integrator_share WHERE integrador_code = :integrador_code
                     ORDER BY since DESC LIMIT 1), 0) AS share_bps
)
INSERT INTO integrator_share (integrador_code, since, share_bps)
SELECT :integrador_code, :since, :share_bps FROM current WHERE :share_bps <> current.share_bps
ON CONFLICT (integrador_code, since) DO UPDATE SET share_bps = excluded.share_bps;

-- name: propose
-- Each partner has at most one open proposal: a new one replaces it.
WITH replaced AS (
    UPDATE share_proposal SET state = 'withdrawn', decided_by = :by, decided_at = :now
    WHERE integrador_code = :integrador_code AND state = 'open'
)
INSERT INTO share_proposal (proposal_id, integrador_code, share_bps, proposed_by, proposed_at)
VALUES (:proposal_id, :integrador_code, :share_bps, :by, :now);

-- name: hold_proposal
-- Locks the proposal until the transaction ends: two members of staff who decide it are serialized here.
SELECT proposal_id, integrador_code, share_bps, proposed_by, proposed_at, state FROM share_proposal
WHERE proposal_id = :proposal_id AND integrador_code = :integrador_code FOR UPDATE;

-- name: decide_proposal
UPDATE share_proposal SET state = :state, decided_by = :by, decided_at = :now WHERE proposal_id = :proposal_id;

-- name: open_proposals
SELECT proposal_id, integrador_code, share_bps, proposed_by, proposed_at, state FROM share_proposal
WHERE integrador_code = ANY(:codes::text[]) AND state = 'open';

-- name: copied_until
SELECT version FROM partner_copy;

-- name: changed
-- Partners changed since that version, ordered by version.
SELECT integrador_code, name, account_id, active, created_at, version FROM integrator
WHERE version > :after ORDER BY version LIMIT :limit;

-- name: shares_of
SELECT integrador_code, since, share_bps FROM integrator_share
WHERE integrador_code = ANY(:codes::text[]) ORDER BY integrador_code, since;

-- name: copy
-- Copies partners from the home cell; a row with a newer version stays. Concurrent copies do no harm.
WITH given AS MATERIALIZED (
    SELECT * FROM unnest(:partners.integrador_code::text[], :partners.name::text[], :partners.account_id::uuid[],
                         :partners.active::boolean[], :partners.created_at::timestamptz[], :partners.version::bigint[])
         AS g (integrador_code, name, account_id, active, created_at, version)
), kept AS (
    INSERT INTO integrator AS i (integrador_code, name, account_id, active, created_at, version)
    TABLE given
    ON CONFLICT (integrador_code) DO UPDATE
    SET name = excluded.name, account_id = excluded.account_id, active = excluded.active, version = excluded.version
    WHERE i.version < excluded.version
    RETURNING integrador_code
), share AS MATERIALIZED (
    SELECT g.integrador_code, g.since, g.share_bps
    FROM unnest(:shares.integrador_code::text[], :shares.since::timestamptz[], :shares.share_bps::integer[])
         AS g (integrador_code, since, share_bps)
    JOIN kept USING (integrador_code)
)
INSERT INTO integrator_share (integrador_code, since, share_bps)
TABLE share
ON CONFLICT (integrador_code, since) DO UPDATE SET share_bps = excluded.share_bps;

-- name: set_copied
UPDATE partner_copy SET version = greatest(version, :version);
