-- The projections themselves are functions (migration 0015_projections), so that the statement which writes journal rows
-- can also project them: payments of one account queue for its clock, and each round trip under it would cost them all.

-- name: rows
SELECT project(:journal_ids::bigint[], :which::text[]);
