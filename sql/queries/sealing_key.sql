-- Keys of SECRET_KEY that this database knows (runtime/servers/sealing_keys.py).

-- name: known
SELECT key_id, fingerprint FROM sealing_key ORDER BY key_id;

-- name: meet
-- Of two processes that begin with different keys at once the first one's stays.
INSERT INTO sealing_key (key_id, fingerprint) SELECT * FROM unnest(:key_ids::smallint[], :fingerprints::text[]) ON CONFLICT DO NOTHING;
