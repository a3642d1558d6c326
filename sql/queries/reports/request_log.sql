-- Requests that programs made to the API (migration 0011_request_log), partitioned by day.

-- name: page
-- both ways
-- Of the next :look requests, those that match the filters, and the last one read, from which the search continues. So
-- a page costs :look rows at most, however rare the matches. Failed requests are few and have their own indexes,
-- request_log_refused (4xx) and request_log_broken (5xx), so they are found however many others lie between.
WITH looked AS (
    SELECT at, request_id, client_id, method, path, status, code, duration_us, made, refusal,
           row_number() OVER (ORDER BY at {DESC}, request_id {DESC}) AS n
    FROM request_log
    WHERE account_id = :account_id AND test = :test AND (at, request_id) {<} (:at, :id)
      AND at >= :from_at AND at < :to_at
      AND status BETWEEN 400 AND 499 -- when refused
      AND status >= 500 -- when broken
    ORDER BY at {DESC}, request_id {DESC} LIMIT :look
)
SELECT at, request_id, client_id, method, path, status, code, duration_us, made, refusal, n = :look AS last,
       starts_with(path, :path) AND starts_with(client_id, :client_id) AND status BETWEEN :low AND :high AS fits
FROM looked
WHERE n = :look
   OR starts_with(path, :path) AND starts_with(client_id, :client_id) AND status BETWEEN :low AND :high
ORDER BY at {DESC}, request_id {DESC} LIMIT :limit;

-- name: one
-- Index request_log_id. No row for an id of another account or mode. Includes the bodies, which lists leave out.
SELECT at, request_id, client_id, method, path, status, code, duration_us, made, refusal, sent, answered
FROM request_log
WHERE left(request_id, 12) = left(:request_id, 12) AND request_id = :request_id AND account_id = :account_id AND test = :test LIMIT 1;

-- name: make_days
SELECT request_log_make_days(:first::date, :last::date) AS days
FROM (SELECT set_config('lock_timeout', '500ms', true)) AS bounded;

-- name: forget_days
-- Gives up after half a second if a reader holds the table, since other statements would queue behind this lock; the
-- caller tries again.
SELECT request_log_forget_days(:ended_before::timestamptz, :days_max::integer, :rows_max::integer) AS forgotten
FROM (SELECT set_config('lock_timeout', '500ms', true)) AS bounded;
