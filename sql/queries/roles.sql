-- The rights of an installation's roles (sql/roles.py). A name cannot be a parameter of GRANT, so these statements
-- return the GRANT and REVOKE statements to run: the server quotes the names, and returns only those that change
-- something.

-- name: me
SELECT current_user::text AS role;

-- name: find
-- Whether grants bind a role. They do not bind a superuser, a role that can create roles or become the owner of the
-- tables, or the owner of the database.
SELECT NOT (r.rolsuper OR r.rolcreaterole OR pg_has_role(r.oid, current_user, 'MEMBER')
            OR EXISTS (SELECT FROM pg_database d WHERE d.datname = current_database() AND d.datdba = r.oid)) AS bound
FROM pg_roles r WHERE r.rolname = :role;

-- name: make
SELECT format('CREATE ROLE %I LOGIN PASSWORD %L', :role::text, :verifier::text) AS text;

-- name: grant
-- `hidden`: columns to leave out, comma-separated; all others are then granted one by one. Any other right of the role
-- on tables, views and sequences of this schema is revoked, on partitions too.
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
-- Rights on the schema, on SECURITY DEFINER functions and on temporary tables. :acts: whether the role gets the latter
-- two.
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
-- Sets the defaults that the role's sessions in this database do not have yet.
SELECT format('ALTER ROLE %I IN DATABASE %I SET %I = %L', :role::text, current_database(), name, value) AS text
FROM unnest(:names::text[], :values::text[]) AS s (name, value)
WHERE NOT EXISTS (
    SELECT FROM pg_db_role_setting d JOIN pg_roles r ON r.oid = d.setrole JOIN pg_database b ON b.oid = d.setdatabase
    WHERE r.rolname = :role AND b.datname = current_database() AND name || '=' || value = ANY (d.setconfig));

-- name: others
-- The settings that differ in this session from the given values, in the units of pg_settings.
SELECT s.name FROM unnest(:names::text[], :values::text[]) AS s (name, value)
LEFT JOIN pg_settings p ON p.name = s.name WHERE p.setting IS DISTINCT FROM s.value;
