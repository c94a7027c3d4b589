SELECT wake_at, place, body FROM runs /*! FORCE INDEX (runs_due) */
WHERE shard = $1 AND wake_at IS NOT NULL AND (wake_at, place) > ($2, $3)
ORDER BY wake_at, place LIMIT $4
