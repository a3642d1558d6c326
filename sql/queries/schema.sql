-- The schema from PostgreSQL's catalogue, for docs/schema.sql. Monthly and daily partitions are left out: they depend
-- on the calendar.

-- name: objects
WITH relation AS (
    SELECT c.* FROM pg_class c
    WHERE c.relnamespace = current_schema()::regnamespace
      AND (NOT c.relispartition OR pg_get_expr(c.relpartbound, c.oid) = 'DEFAULT') AND NOT starts_with(c.relname, 'feed_archive_')
), line AS (
    SELECT a.attrelid AS relation, 1 AS part, a.attnum::text AS name, a.attnum AS place,
           concat_ws(' ', '   ', a.attname, format_type(a.atttypid, a.atttypmod),
                     CASE WHEN a.attidentity <> '' THEN 'GENERATED ALWAYS AS IDENTITY' END,
                     CASE a.attgenerated WHEN 's' THEN format('GENERATED ALWAYS AS (%s) STORED', pg_get_expr(d.adbin, d.adrelid))
                                         ELSE 'DEFAULT ' || pg_get_expr(d.adbin, d.adrelid) END,
                     CASE WHEN a.attnotnull THEN 'NOT NULL' END) AS text
    FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE a.attnum > 0 AND NOT a.attisdropped
    UNION ALL
    SELECT conrelid, 2, conname, 0, format('    CONSTRAINT %I %s', conname, pg_get_constraintdef(oid, true))
    FROM pg_constraint WHERE contype IN ('c', 'p', 'u', 'f', 'x')
)
SELECT CASE WHEN subname = '' THEN E'\n' ELSE '' END || text AS text FROM (
    SELECT 1 AS rank, relname::text AS name, '' AS subname,
           CASE WHEN relispartition THEN format('CREATE TABLE %I PARTITION OF %s DEFAULT;', relname, (
                    SELECT inhparent::regclass FROM pg_inherits WHERE inhrelid = relation.oid))
                ELSE format(E'CREATE TABLE %I (\n%s\n)%s%s;', relname, (
                    SELECT string_agg(l.text, E',\n' ORDER BY l.part, l.place, l.name) FROM line l
                    WHERE l.relation = relation.oid),
                    ' PARTITION BY ' || pg_get_partkeydef(oid), ' WITH (' || array_to_string(reloptions, ', ') || ')')
           END AS text
    FROM relation WHERE relkind IN ('r', 'p')
    UNION ALL
    SELECT 1, t.relname, i.relname, pg_get_indexdef(i.oid, 0, true) || ';'
    FROM relation i JOIN pg_index x ON x.indexrelid = i.oid JOIN pg_class t ON t.oid = x.indrelid
    WHERE NOT i.relispartition AND NOT t.relispartition
      AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = i.oid AND contype IN ('p', 'u'))
    UNION ALL
    SELECT 1, r.relname, t.tgname, pg_get_triggerdef(t.oid, true) || ';'
    FROM pg_trigger t JOIN relation r ON r.oid = t.tgrelid WHERE NOT t.tgisinternal
    UNION ALL
    SELECT 2, sequencename, '', format('CREATE SEQUENCE %I AS %s INCREMENT BY %s MINVALUE %s MAXVALUE %s START %s;',
                                       sequencename, data_type, increment_by, min_value, max_value, start_value)
    FROM pg_sequences s WHERE schemaname = current_schema()
      AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = s.sequencename::text::regclass AND d.deptype = 'i')
    UNION ALL
    SELECT 3, p.proname, '', format('CREATE AGGREGATE %s (SFUNC = %s, STYPE = %s, INITCOND = %L);', p.oid::regprocedure,
                                    a.aggtransfn, a.aggtranstype::regtype, a.agginitval)
    FROM pg_aggregate a JOIN pg_proc p ON p.oid = a.aggfnoid WHERE p.pronamespace = current_schema()::regnamespace
    UNION ALL
    SELECT 4, proname, '', replace(replace(pg_get_functiondef(oid), format('FUNCTION %I.', current_schema()), 'FUNCTION '),
                                   format('TO %L, ', current_schema()), 'TO CURRENT_SCHEMA, ')
           || CASE WHEN has_function_privilege('public', oid, 'EXECUTE') THEN ';'
                   ELSE format(E';\nREVOKE EXECUTE ON FUNCTION %s FROM PUBLIC;', oid::regprocedure) END
    FROM pg_proc WHERE pronamespace = current_schema()::regnamespace AND prokind = 'f'
    UNION ALL
    SELECT 5, relname, '', format(E'CREATE VIEW %I AS\n%s', relname, pg_get_viewdef(oid, true))
    FROM relation WHERE relkind = 'v'
) AS object
ORDER BY rank, name COLLATE "C", subname COLLATE "C";
