SELECT {job} FROM jobs /*! FORCE INDEX (jobs_due) */
WHERE shard = $1 AND wake_at IS NOT NULL AND (wake_at, id) > ($2, $3)
ORDER BY wake_at, id LIMIT $4
