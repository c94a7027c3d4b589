SELECT {message} FROM messages WHERE shard = $1 AND wake_at = $2 AND number > $3
UNION ALL
SELECT {message} FROM messages WHERE shard = $1 AND wake_at > $2
ORDER BY wake_at, number LIMIT $4
