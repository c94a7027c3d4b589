-- Output of attempts. Not keyed by its place alone: chunks are large, and a table with a rowid keeps them off the
-- inner pages.
CREATE TABLE chunks (
    run     INTEGER NOT NULL,
    token   INTEGER NOT NULL,
    number  INTEGER NOT NULL,
    made_at INTEGER NOT NULL,
    stream  INTEGER NOT NULL,
    bytes   BLOB    NOT NULL,
    UNIQUE (run, token, number)
) STRICT;
