-- A digest of each text, by which a reader finds that the text was altered. It covers the name of the text as
-- well, since a damaged index leads to the row of another one. `row_digest` is a function of ikigai.
--
-- The column has no default, so that an earlier version that still has the store open cannot write a text
-- without a digest. It stands before the content, as all else does. So the tables are made anew.
CREATE TABLE stored_assets_4 (
    path          TEXT    NOT NULL PRIMARY KEY,
    tokens        BIGINT  NOT NULL,
    version       BIGINT  NOT NULL,
    read_only     BOOLEAN NOT NULL DEFAULT FALSE,
    updated_at    BIGINT  NOT NULL,
    written_cause TEXT,
    written_agent TEXT,
    digest        BLOB    NOT NULL,
    content       BLOB    NOT NULL
);
INSERT INTO stored_assets_4
    SELECT path, tokens, version, read_only, updated_at, written_cause, written_agent,
        row_digest(path, version, CAST(content AS BLOB)), content
    FROM stored_assets;

CREATE TABLE asset_versions_4 (
    path          TEXT   NOT NULL,
    version       BIGINT NOT NULL,
    tokens        BIGINT NOT NULL,
    written_at    BIGINT NOT NULL,
    written_cause TEXT,
    written_agent TEXT,
    replaced_at   BIGINT NOT NULL,
    cause         TEXT   NOT NULL,
    agent         TEXT   NOT NULL,
    digest        BLOB   NOT NULL,
    content       BLOB   NOT NULL,
    PRIMARY KEY (path, version)
);
INSERT INTO asset_versions_4
    SELECT path, version, tokens, written_at, written_cause, written_agent, replaced_at, cause, agent,
        row_digest(path, version, CAST(content AS BLOB)), content
    FROM asset_versions;

CREATE TABLE asset_pins_4 (
    agent     TEXT   NOT NULL,
    path      TEXT   NOT NULL REFERENCES stored_assets_4 (path) ON DELETE CASCADE,
    pinned_at BIGINT NOT NULL,
    PRIMARY KEY (agent, path)
);
INSERT INTO asset_pins_4 SELECT agent, path, pinned_at FROM asset_pins;

CREATE TABLE session_events_4 (
    session     TEXT    NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    seq         BIGINT  NOT NULL,
    kind        TEXT    NOT NULL,
    begins_turn BOOLEAN NOT NULL,
    written_at  BIGINT  NOT NULL,
    digest      BLOB    NOT NULL,
    json        BLOB    NOT NULL,
    PRIMARY KEY (session, seq)
);
INSERT INTO session_events_4
    SELECT session, seq, kind, begins_turn, written_at,
        row_digest(seq, kind, begins_turn, CAST(json AS BLOB)), json
    FROM session_events;

DROP TABLE asset_pins;
DROP TABLE stored_assets;
DROP TABLE asset_versions;
DROP TABLE session_events;
ALTER TABLE stored_assets_4 RENAME TO stored_assets;
ALTER TABLE asset_versions_4 RENAME TO asset_versions;
ALTER TABLE asset_pins_4 RENAME TO asset_pins;
ALTER TABLE session_events_4 RENAME TO session_events;
CREATE INDEX asset_versions_by_age ON asset_versions (replaced_at);
CREATE INDEX asset_pins_by_path ON asset_pins (path);
