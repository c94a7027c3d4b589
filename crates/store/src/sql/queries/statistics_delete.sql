DELETE FROM statistics WHERE namespace = $1 AND job = $2 AND kind = $3 AND bucket_at = $4 AND shard = $5
    AND commit_no = $6 SKIP LOCKED