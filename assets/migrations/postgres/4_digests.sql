-- A digest of each text, by which a reader finds that the text was altered: what is hashed is what names the
-- text, a text with a NUL behind it and a number as eight bytes, and then the text itself.
--
-- The column has no default, so that an earlier version that still has the store open cannot write a text
-- without a digest. To hash all texts may take longer than any other statement.
SET LOCAL statement_timeout = '10min';

ALTER TABLE stored_assets ADD COLUMN digest BYTEA;
UPDATE stored_assets SET digest =
    sha256(convert_to(path, 'UTF8') || '\x00'::BYTEA || int8send(version) || content);
ALTER TABLE stored_assets ALTER COLUMN digest SET NOT NULL;

ALTER TABLE asset_versions ADD COLUMN digest BYTEA;
UPDATE asset_versions SET digest =
    sha256(convert_to(path, 'UTF8') || '\x00'::BYTEA || int8send(version) || content);
ALTER TABLE asset_versions ALTER COLUMN digest SET NOT NULL;

ALTER TABLE session_events ADD COLUMN digest BYTEA;
UPDATE session_events SET digest =
    sha256(int8send(seq) || convert_to(kind, 'UTF8') || '\x00'::BYTEA
        || int8send(CAST(CAST(begins_turn AS INTEGER) AS BIGINT)) || json);
ALTER TABLE session_events ALTER COLUMN digest SET NOT NULL;
