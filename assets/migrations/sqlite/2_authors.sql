-- Who wrote each version, and by what kind of change. Until now a version only said what
-- ended it, which is the same of the version that follows, unless that ended in a removal.
--
-- SQLite appends new columns, and behind the content they could not be read without it. So
-- the tables are made anew. The pins go with the table that they refer to.
CREATE TABLE stored_assets_2 (
    path          TEXT    NOT NULL PRIMARY KEY,
    tokens        BIGINT  NOT NULL,
    version       BIGINT  NOT NULL,
    read_only     BOOLEAN NOT NULL DEFAULT FALSE,
    updated_at    BIGINT  NOT NULL,
    written_cause TEXT,
    written_agent TEXT,
    content       BLOB    NOT NULL
);
INSERT INTO stored_assets_2
    SELECT this.path, this.tokens, this.version, this.read_only, this.updated_at,
        before.cause, before.agent, this.content
    FROM stored_assets AS this LEFT JOIN asset_versions AS before
        ON before.path = this.path AND before.version = this.version - 1
            AND before.cause <> 'remove';

CREATE TABLE asset_versions_2 (
    path          TEXT   NOT NULL,
    version       BIGINT NOT NULL,
    tokens        BIGINT NOT NULL,
    written_at    BIGINT NOT NULL,
    written_cause TEXT,
    written_agent TEXT,
    replaced_at   BIGINT NOT NULL,
    cause         TEXT   NOT NULL,
    agent         TEXT   NOT NULL,
    content       BLOB   NOT NULL,
    PRIMARY KEY (path, version)
);
INSERT INTO asset_versions_2
    SELECT this.path, this.version, this.tokens, this.written_at,
        before.cause, before.agent, this.replaced_at, this.cause, this.agent, this.content
    FROM asset_versions AS this LEFT JOIN asset_versions AS before
        ON before.path = this.path AND before.version = this.version - 1
            AND before.cause <> 'remove';

CREATE TABLE asset_pins_2 (
    agent     TEXT   NOT NULL,
    path      TEXT   NOT NULL REFERENCES stored_assets_2 (path) ON DELETE CASCADE,
    pinned_at BIGINT NOT NULL,
    PRIMARY KEY (agent, path)
);
INSERT INTO asset_pins_2 SELECT agent, path, pinned_at FROM asset_pins;

DROP TABLE asset_pins;
DROP TABLE stored_assets;
DROP TABLE asset_versions;
ALTER TABLE stored_assets_2 RENAME TO stored_assets;
ALTER TABLE asset_versions_2 RENAME TO asset_versions;
ALTER TABLE asset_pins_2 RENAME TO asset_pins;
CREATE INDEX asset_versions_by_age ON asset_versions (replaced_at);
CREATE INDEX asset_pins_by_path ON asset_pins (path);
