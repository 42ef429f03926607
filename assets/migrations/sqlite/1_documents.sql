-- Documents, what they said before, and which agent has which of them in its context.
-- Times are microseconds since 1970 in UTC. Text compares by its bytes, which is what
-- listing by prefix relies on.
--
-- Content comes last: what does not fit a page is a chain of pages, and SQLite walks it to
-- reach a column behind it. Before it, all else is read without a byte of any document.
CREATE TABLE stored_assets (
    path       TEXT    NOT NULL PRIMARY KEY,
    tokens     BIGINT  NOT NULL,
    version    BIGINT  NOT NULL,
    read_only  BOOLEAN NOT NULL DEFAULT FALSE,
    updated_at BIGINT  NOT NULL,
    content    BLOB    NOT NULL
);

-- No reference to stored_assets: what a removed document said outlives it.
CREATE TABLE asset_versions (
    path        TEXT   NOT NULL,
    version     BIGINT NOT NULL,
    tokens      BIGINT NOT NULL,
    written_at  BIGINT NOT NULL,
    replaced_at BIGINT NOT NULL,
    cause       TEXT   NOT NULL,
    agent       TEXT   NOT NULL,
    content     BLOB   NOT NULL,
    PRIMARY KEY (path, version)
);
CREATE INDEX asset_versions_by_age ON asset_versions (replaced_at);

CREATE TABLE asset_pins (
    agent     TEXT   NOT NULL,
    path      TEXT   NOT NULL REFERENCES stored_assets (path) ON DELETE CASCADE,
    pinned_at BIGINT NOT NULL,
    PRIMARY KEY (agent, path)
);
CREATE INDEX asset_pins_by_path ON asset_pins (path);
