-- The keys of SECRET_KEY that this database has seen (runtime/servers/sealing_keys.py).

-- name: known
SELECT key_id, fingerprint FROM sealing_key ORDER BY key_id;

-- name: meet
-- If two processes start at once with different keys of the same id, the first one's is kept.
INSERT INTO sealing_key (key_id, fingerprint) SELECT * FROM unnest(:key_ids::smallint[], :fingerprints::text[]) ON CONFLICT DO NOTHING;
