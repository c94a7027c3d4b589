-- What nodes that cannot be dialled are told. It goes when it was taken.
CREATE TABLE mail (
    recipient INTEGER NOT NULL,
    sender    INTEGER NOT NULL,
    number    INTEGER NOT NULL,
    sent_at   INTEGER NOT NULL,
    body      BLOB    NOT NULL,
    PRIMARY KEY (recipient, sender, number)
) STRICT, WITHOUT ROWID;
