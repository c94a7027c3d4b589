//! The statements that only MySQL has, with bound parameters. Those that write the rows of a commit are in `writes`.

pub(super) mod shards {
    pub(in crate::mysql) const COUNT: &str = "SELECT COUNT(*) FROM shards";
    pub(in crate::mysql) const OWNERS: &str = "SELECT shard, epoch, owner FROM shards";
    pub(in crate::mysql) const ACQUIRE: &str = "UPDATE shards SET epoch = epoch + 1, commit_no = commit_no + 1, owner = ?, heir = NULL \
         WHERE shard = ? AND epoch = COALESCE(?, epoch)";
}
