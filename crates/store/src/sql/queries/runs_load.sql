SELECT body FROM runs /*! FORCE INDEX (runs_due) */
WHERE shard = $1 AND wake_at IS NULL AND place BETWEEN $2 AND $3
ORDER BY place
