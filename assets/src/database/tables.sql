-- The tables of a store, in the SQL of PostgreSQL. Times are microseconds since 1970 in UTC.
--
-- The collation "C" compares text by its bytes, so that listing by prefix can use the primary key
-- whatever the locale of the server is. Content is bytes: TEXT cannot have a NUL. It comes last:
-- what does not fit a page is a chain of pages, and SQLite follows the chain to reach a column
-- behind it.

-- Other programs that use sqlx may share the database, so the name is not sqlx's own.
CREATE TABLE ikigai_migrations (version BIGINT NOT NULL PRIMARY KEY);
INSERT INTO ikigai_migrations (version) VALUES (4);

-- `digest` is the digest of the name and the content. It has no default, so no program can write
-- a text without one.
CREATE TABLE stored_assets (
    path          TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    tokens        BIGINT           NOT NULL,
    version       BIGINT           NOT NULL,
    read_only     BOOLEAN          NOT NULL DEFAULT FALSE,
    updated_at    BIGINT           NOT NULL,
    written_cause TEXT             NOT NULL,
    written_agent TEXT             NOT NULL,
    digest        BYTEA            NOT NULL,
    content       BYTEA            NOT NULL
);

-- No reference to stored_assets: the versions of a removed asset are kept.
CREATE TABLE asset_versions (
    path          TEXT COLLATE "C" NOT NULL,
    version       BIGINT           NOT NULL,
    tokens        BIGINT           NOT NULL,
    written_at    BIGINT           NOT NULL,
    written_cause TEXT             NOT NULL,
    written_agent TEXT             NOT NULL,
    replaced_at   BIGINT           NOT NULL,
    cause         TEXT             NOT NULL,
    agent         TEXT             NOT NULL,
    digest        BYTEA            NOT NULL,
    content       BYTEA            NOT NULL,
    PRIMARY KEY (path, version)
);
CREATE INDEX asset_versions_by_age ON asset_versions (replaced_at);

CREATE TABLE asset_pins (
    agent     TEXT COLLATE "C" NOT NULL,
    path      TEXT COLLATE "C" NOT NULL REFERENCES stored_assets (path) ON DELETE CASCADE,
    pinned_at BIGINT           NOT NULL,
    PRIMARY KEY (agent, path)
);
CREATE INDEX asset_pins_by_path ON asset_pins (path);

-- Conversations. The counts are in the row, so that a list reads no event. `events` is also the
-- number of the last event.
--
-- `fence` is the number of the session's last lease. Its end is `lease_until`; `leased_at` is the
-- time at which it was last renewed.
CREATE TABLE sessions (
    id          TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    agent       TEXT COLLATE "C" NOT NULL,
    workspace   TEXT COLLATE "C" NOT NULL,
    title       TEXT,
    provider    TEXT,
    model       TEXT,
    forked_from TEXT,
    created_at  BIGINT           NOT NULL,
    updated_at  BIGINT           NOT NULL,
    events      BIGINT           NOT NULL,
    turns       BIGINT           NOT NULL,
    bytes       BIGINT           NOT NULL,
    fence       BIGINT           NOT NULL,
    lease_owner TEXT,
    leased_at   BIGINT,
    lease_until BIGINT
);
CREATE INDEX sessions_by_time ON sessions (agent, updated_at, id);

CREATE TABLE session_events (
    session     TEXT COLLATE "C" NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    seq         BIGINT           NOT NULL,
    kind        TEXT             NOT NULL,
    begins_turn BOOLEAN          NOT NULL,
    written_at  BIGINT           NOT NULL,
    digest      BYTEA            NOT NULL,
    json        BYTEA            NOT NULL,
    PRIMARY KEY (session, seq)
);

-- The tokens of conversations that are not kept. A day is a number such as 20260507.
CREATE TABLE spent_tokens (
    agent  TEXT COLLATE "C" NOT NULL,
    day    BIGINT           NOT NULL,
    tokens BIGINT           NOT NULL,
    PRIMARY KEY (agent, day)
);
