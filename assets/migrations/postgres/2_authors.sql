-- Who wrote each version, and by what kind of change. Until now a version only said what
-- ended it, which is the same of the version that follows, unless that ended in a removal.
ALTER TABLE stored_assets ADD COLUMN written_cause TEXT, ADD COLUMN written_agent TEXT;
ALTER TABLE asset_versions ADD COLUMN written_cause TEXT, ADD COLUMN written_agent TEXT;

UPDATE stored_assets AS this SET written_cause = before.cause, written_agent = before.agent
    FROM asset_versions AS before
    WHERE before.path = this.path AND before.version = this.version - 1
        AND before.cause <> 'remove';
UPDATE asset_versions AS this SET written_cause = before.cause, written_agent = before.agent
    FROM asset_versions AS before
    WHERE before.path = this.path AND before.version = this.version - 1
        AND before.cause <> 'remove';
