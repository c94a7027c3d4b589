//! The statements that only MySQL has, with bound parameters. Those that write the rows of a commit are in `writes`.

/// The server's clock in milliseconds. Not `UNIX_TIMESTAMP`, which ends in 2038 on some servers.
macro_rules! now {
    () => {
        "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(3)) DIV 1000)"
    };
}

pub(super) mod shards {
    pub(in crate::mysql) const COUNT: &str = "SELECT COUNT(*) FROM shards";
    pub(in crate::mysql) const OWNERS: &str = "SELECT shard, epoch, owner FROM shards";
    pub(in crate::mysql) const ACQUIRE: &str = "UPDATE shards SET epoch = epoch + 1, commit_no = commit_no + 1, owner = ?, heir = NULL \
         WHERE shard = ? AND epoch = COALESCE(?, epoch)";
}

pub(super) mod sessions {
    /// The order matters: MySQL assigns from left to right, and `since` of an expired session is set by its old
    /// `until`.
    pub(in crate::mysql) const RENEW: &str = concat!(
        "UPDATE sessions SET node = ?, address = ?, weight = ?, embedded = ?, busy = ?, since = IF(until <= ",
        now!(),
        ", ",
        now!(),
        ", since), until = ",
        now!(),
        " + ? WHERE id = ?"
    );
    pub(in crate::mysql) const BEGIN: &str = concat!(
        "INSERT INTO sessions (id, node, address, weight, embedded, busy, since, until) VALUES (?, ?, ?, ?, ?, ?, ",
        now!(),
        ", ",
        now!(),
        " + ?)"
    );
    pub(in crate::mysql) const ALL: &str = concat!(
        "SELECT id, node, address, weight, embedded, busy, ",
        now!(),
        " - since, until - ",
        now!(),
        " FROM sessions ORDER BY id"
    );
    pub(in crate::mysql) const SWEEP: &str = concat!("DELETE FROM sessions WHERE until <= ", now!(), " - ?");
}
