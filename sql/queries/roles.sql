-- What the roles of an installation may do (sql/roles.py). A name cannot be a parameter of GRANT: the statements to be run are
-- written by the server, which quotes names, and only those that change something.

-- name: me
SELECT current_user::text AS role;

-- name: find
-- Whether grants bind a role: not one that may do anything, may become the owner of the tables, or owns the database.
SELECT r.rolname::text AS role,
       NOT (r.rolsuper OR r.rolcreaterole OR pg_has_role(r.oid, current_user, 'MEMBER')
            OR EXISTS (SELECT FROM pg_database d WHERE d.datname = current_database() AND d.datdba = r.oid)) AS bound
FROM pg_roles r WHERE r.rolname = :role;

-- name: make
SELECT format('CREATE ROLE %I LOGIN PASSWORD %L', :role::text, :verifier::text) AS text;

-- name: grant
-- `hidden`: columns that are left out, with commas between them; all others are granted one by one then. Whatever else the role
-- was given on tables, views and sequences of this schema is taken back, on partitions too.
WITH relation AS (
    SELECT oid, relname, relkind, relacl, CASE relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS kind FROM pg_class
    WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p', 'v', 'S')
), wanted AS (
    SELECT r.relname, r.kind, p.privilege, a.attname
    FROM unnest(:names::text[], :privileges::text[], :hidden::text[]) AS w (name, privileges, hidden)
    JOIN relation r ON r.relname = w.name
    CROSS JOIN LATERAL unnest(string_to_array(w.privileges, ',')) AS p (privilege)
    LEFT JOIN pg_attribute a ON w.hidden <> '' AND a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
                            AND a.attname <> ALL (string_to_array(w.hidden, ','))
), held AS (
    SELECT r.relname, r.kind, e.privilege_type, NULL::name AS attname
    FROM relation r CROSS JOIN LATERAL aclexplode(r.relacl) e JOIN pg_roles o ON o.oid = e.grantee WHERE o.rolname = :role
    UNION ALL
    SELECT r.relname, r.kind, e.privilege_type, a.attname
    FROM relation r JOIN pg_attribute a ON a.attrelid = r.oid CROSS JOIN LATERAL aclexplode(a.attacl) e
    JOIN pg_roles o ON o.oid = e.grantee WHERE o.rolname = :role
), change AS (
    SELECT 'REVOKE' AS verb, 'FROM' AS preposition, c.* FROM (TABLE held EXCEPT TABLE wanted) AS c (relname, kind, privilege, attname)
    UNION ALL
    SELECT 'GRANT', 'TO', c.* FROM (TABLE wanted EXCEPT TABLE held) AS c (relname, kind, privilege, attname)
)
SELECT format('%s %s ON %s %I %s %I', verb,
              string_agg(privilege || coalesce(' (' || quote_ident(attname) || ')', ''), ', ' ORDER BY privilege, attname),
              kind, relname, preposition, :role::text) AS text
FROM change GROUP BY verb, preposition, kind, relname ORDER BY verb DESC, relname;

-- name: grant_rest
-- On the schema, on functions with their owner's rights, and temporary tables: :acts says whether the role needs these two.
SELECT text FROM (
    SELECT format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), :role::text) AS text
    WHERE NOT has_schema_privilege(:role::text, current_schema(), 'USAGE')
    UNION ALL
    SELECT format('REVOKE CREATE ON SCHEMA %I FROM PUBLIC, %I', current_schema(), :role::text)
    WHERE has_schema_privilege(:role::text, current_schema(), 'CREATE')
    UNION ALL
    SELECT format(CASE WHEN :acts::boolean THEN 'GRANT EXECUTE ON FUNCTION %s TO %I' ELSE 'REVOKE EXECUTE ON FUNCTION %s FROM %I' END,
                  oid::regprocedure, :role::text)
    FROM pg_proc WHERE pronamespace = current_schema()::regnamespace AND prosecdef
                   AND has_function_privilege(:role::text, oid, 'EXECUTE') <> :acts
    UNION ALL
    SELECT format('GRANT TEMPORARY ON DATABASE %I TO %I', datname, :role::text) FROM pg_database
    WHERE datname = current_database() AND :acts AND NOT EXISTS (
        SELECT FROM aclexplode(datacl) e JOIN pg_roles o ON o.oid = e.grantee WHERE o.rolname = :role AND e.privilege_type = 'TEMPORARY')
    UNION ALL
    SELECT format('REVOKE TEMPORARY ON DATABASE %I FROM PUBLIC, %I', current_database(), :role::text)
    WHERE NOT :acts AND has_database_privilege(:role::text, current_database(), 'TEMPORARY')
) AS s;

-- name: settings
-- Defaults of a role's sessions in this database, those that it has not yet.
SELECT format('ALTER ROLE %I IN DATABASE %I SET %I = %L', :role::text, current_database(), name, value) AS text
FROM unnest(:names::text[], :values::text[]) AS s (name, value)
WHERE NOT EXISTS (
    SELECT FROM pg_db_role_setting d JOIN pg_roles r ON r.oid = d.setrole JOIN pg_database b ON b.oid = d.setdatabase
    WHERE r.rolname = :role AND b.datname = current_database() AND name || '=' || value = ANY (d.setconfig));

-- name: others
-- What is set otherwise in this session than asked, in the units of pg_settings.
SELECT s.name FROM unnest(:names::text[], :values::text[]) AS s (name, value)
LEFT JOIN pg_settings p ON p.name = s.name WHERE p.setting IS DISTINCT FROM s.value;
