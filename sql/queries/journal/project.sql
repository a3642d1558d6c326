-- The projections are functions (migration 0015_projections), so that the statement which writes journal rows also
-- projects them: payments of one account queue for its clock, and a second round trip under the clock would delay all
-- of them.

-- name: rows
SELECT project(:journal_ids::bigint[], :which::text[]);
