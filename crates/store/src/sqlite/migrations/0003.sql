-- A calendar is a named rule about days; `days` is JSON. `settled`: every job that names it follows this version.
CREATE TABLE calendars (
    namespace   TEXT    NOT NULL,
    name        TEXT    NOT NULL,
    version     INTEGER NOT NULL,
    days        TEXT    NOT NULL,
    description TEXT    NOT NULL,
    updated_at  INTEGER NOT NULL,
    settled     INTEGER NOT NULL,
    PRIMARY KEY (namespace, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX calendars_unsettled ON calendars (namespace, name) WHERE settled = 0;

-- The last version that any calendar was given. One row: no version comes twice, even after a delete.
CREATE TABLE calendar_versions (
    one  INTEGER PRIMARY KEY CHECK (one = 1),
    last INTEGER NOT NULL
) STRICT;
INSERT INTO calendar_versions (one, last) VALUES (1, 0);

-- The names of the calendars that a job keeps to, as a JSON list; null: none.
ALTER TABLE jobs ADD COLUMN calendars TEXT;
CREATE INDEX jobs_with_calendar ON jobs (namespace, name) WHERE calendars IS NOT NULL;
