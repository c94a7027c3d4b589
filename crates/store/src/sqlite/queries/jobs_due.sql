SELECT {job} FROM jobs WHERE shard = $1 AND wake_at = $2 AND id > $3
UNION ALL
SELECT {job} FROM jobs WHERE shard = $1 AND wake_at > $2
ORDER BY wake_at, id LIMIT $4
