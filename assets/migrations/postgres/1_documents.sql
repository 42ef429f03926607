-- Documents, what they said before, and which agent has which of them in its context.
-- Times are microseconds since 1970 in UTC. The collation "C" compares text by its bytes,
-- so that listing by prefix can use the primary key whatever the locale of the server is.
-- Content is bytes: TEXT cannot hold a NUL. It comes last as it does in SQLite, which must
-- walk through it to what is behind.
CREATE TABLE stored_assets (
    path       TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    tokens     BIGINT           NOT NULL,
    version    BIGINT           NOT NULL,
    read_only  BOOLEAN          NOT NULL DEFAULT FALSE,
    updated_at BIGINT           NOT NULL,
    content    BYTEA            NOT NULL
);

-- No reference to stored_assets: what a removed document said outlives it.
CREATE TABLE asset_versions (
    path        TEXT COLLATE "C" NOT NULL,
    version     BIGINT           NOT NULL,
    tokens      BIGINT           NOT NULL,
    written_at  BIGINT           NOT NULL,
    replaced_at BIGINT           NOT NULL,
    cause       TEXT             NOT NULL,
    agent       TEXT             NOT NULL,
    content     BYTEA            NOT NULL,
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
