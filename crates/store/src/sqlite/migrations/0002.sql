-- The key a run was asked for under, so that its result can be looked up by it. Most runs have none, and cost nothing.
ALTER TABLE runs ADD COLUMN key TEXT;
ALTER TABLE history ADD COLUMN key TEXT;
CREATE INDEX runs_key ON runs (key) WHERE key IS NOT NULL;
CREATE INDEX history_key ON history (key) WHERE key IS NOT NULL;
