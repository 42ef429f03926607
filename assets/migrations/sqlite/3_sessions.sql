-- Kept conversations. Times are microseconds since 1970 in UTC. The counts are kept in the row,
-- so that a list reads no event. `events` is also the number of the last event.
--
-- `fence` is the number of the session's last lease. Its end is `lease_until`; `leased_at` is
-- when it was last renewed.
CREATE TABLE sessions (
    id          TEXT   NOT NULL PRIMARY KEY,
    agent       TEXT   NOT NULL,
    workspace   TEXT   NOT NULL,
    title       TEXT,
    provider    TEXT,
    model       TEXT,
    forked_from TEXT,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    events      BIGINT NOT NULL,
    turns       BIGINT NOT NULL,
    bytes       BIGINT NOT NULL,
    fence       BIGINT NOT NULL,
    lease_owner TEXT,
    leased_at   BIGINT,
    lease_until BIGINT
);
CREATE INDEX sessions_by_time ON sessions (agent, updated_at, id);

-- Content comes last, as in `stored_assets`.
CREATE TABLE session_events (
    session     TEXT    NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    seq         BIGINT  NOT NULL,
    kind        TEXT    NOT NULL,
    begins_turn BOOLEAN NOT NULL,
    written_at  BIGINT  NOT NULL,
    json        BLOB    NOT NULL,
    PRIMARY KEY (session, seq)
);

-- The tokens of conversations that are not kept. A day is a number such as 20260507.
CREATE TABLE spent_tokens (
    agent  TEXT   NOT NULL,
    day    BIGINT NOT NULL,
    tokens BIGINT NOT NULL,
    PRIMARY KEY (agent, day)
);
