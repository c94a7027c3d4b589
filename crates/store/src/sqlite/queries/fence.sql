UPDATE shards SET commit_no = commit_no + 1, last_id = ?4, jobs = jobs + ?5, live_runs = live_runs + ?6,
    history_runs = history_runs + ?7, dead_letters = dead_letters + ?8
WHERE shard = ?1 AND epoch = ?2 AND commit_no = ?3
