-- What nodes that cannot be dialled are told. It goes when it was taken.
CREATE TABLE IF NOT EXISTS mail (
    recipient BIGINT   NOT NULL,
    sender    BIGINT   NOT NULL,
    number    BIGINT   NOT NULL,
    sent_at   BIGINT   NOT NULL,
    body      LONGBLOB NOT NULL,
    PRIMARY KEY (recipient, sender, number)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
