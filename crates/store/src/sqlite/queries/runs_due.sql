SELECT wake_at, place, body FROM runs WHERE shard = $1 AND wake_at = $2 AND place > $3
UNION ALL
SELECT wake_at, place, body FROM runs WHERE shard = $1 AND wake_at > $2
ORDER BY wake_at, place LIMIT $4
