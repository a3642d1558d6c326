-- PostgreSQL's clock.

-- name: read
SELECT clock_timestamp() AS now;
