-- How far each account's sandbox is ahead of real time (docs/decisions/0013). Production has no such row and reads none:
-- whoever joins this table does so for test rows only.

CREATE TABLE sandbox_clock (
    account_id  uuid PRIMARY KEY REFERENCES account,
    -- Seconds, not an interval: days of an interval are as long as the session's time zone says.
    ahead_s     bigint NOT NULL CHECK (ahead_s >= 0),
    moved_at    timestamptz NOT NULL
);
