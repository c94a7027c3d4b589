SELECT run, namespace, job, died_at FROM dead_letters
WHERE run > $1 AND namespace = coalesce($2, namespace) AND ($3::text IS NULL OR job = $3)
    AND died_at >= coalesce($4, died_at)
ORDER BY run LIMIT $5
