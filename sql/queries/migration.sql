-- What the database was brought to (sql/migrate.py).

-- name: missing
-- Of the files that this version has, those that were not applied.
SELECT name FROM unnest(:names::text[]) AS g (name) WHERE NOT EXISTS (SELECT FROM migration m WHERE m.name = g.name);
