-- What nodes that cannot be dialled are told. It goes when it was taken.
CREATE TABLE mail (
    recipient int8  NOT NULL,
    sender    int8  NOT NULL,
    number    int8  NOT NULL,
    sent_at   int8  NOT NULL,
    body      bytea NOT NULL,
    PRIMARY KEY (recipient, sender, number)
);
