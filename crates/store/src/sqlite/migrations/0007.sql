-- What became of young messages, an entry a commit: most are acknowledged before they are worth a row in `messages`.
CREATE TABLE young (
    entry INTEGER PRIMARY KEY,
    bytes BLOB NOT NULL
) STRICT;
