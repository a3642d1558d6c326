-- Cells: which one a schema is, where the others are, and which numbers of boletos are whose (runtime/cells/directory.py).

-- name: own
SELECT number FROM this_cell;

-- name: others
-- Of a move that was cut off nobody waits for the end.
SELECT number, name, addresses_sealed, next_sealed, coalesce(held_since > now() - interval '60 s', false) AS held
FROM cell ORDER BY number;

-- name: blocks
SELECT first, last, number FROM number_block ORDER BY first;

-- name: has_email
-- Whether this e-mail signs in here.
SELECT EXISTS (SELECT FROM dashboard_user WHERE email = :email) AS known;

-- name: accounts
SELECT count(*) AS accounts FROM account;

-- name: numbers
-- Of the other cells; known at home.
SELECT number FROM cell;
