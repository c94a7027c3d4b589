UPDATE shards SET epoch = epoch + 1, commit_no = commit_no + 1, owner = ?3, heir = NULL
WHERE shard = ?1 AND epoch = coalesce(?2, epoch)
RETURNING epoch
