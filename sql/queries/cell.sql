-- Cells: the number of this one, the addresses of the others, and the boleto number blocks of each
-- (runtime/cells/directory.py).

-- name: own
SELECT number FROM this_cell;

-- name: others
-- A hold older than 60 s does not count: its move was interrupted.
SELECT number, name, addresses_sealed, next_sealed, coalesce(held_since > now() - interval '60 s', false) AS held
FROM cell ORDER BY number;

-- name: blocks
SELECT first, last, number FROM number_block ORDER BY first;

-- name: has_email
-- Whether a dashboard user of this cell has this e-mail, or somebody who was invited and may ask for another link.
SELECT EXISTS (SELECT FROM dashboard_user WHERE email = :email)
    OR EXISTS (SELECT FROM invitation WHERE email = :email) AS known;

-- name: accounts
SELECT count(*) AS accounts FROM account;

-- name: numbers
-- The numbers of the other cells; only the home cell stores them.
SELECT number FROM cell;
