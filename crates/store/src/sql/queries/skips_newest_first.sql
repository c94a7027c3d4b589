SELECT job, revision, from_due, to_due, reason, made_at FROM skips
WHERE job = $1 AND (revision, from_due) < ($2, $3)
ORDER BY revision DESC, from_due DESC LIMIT $4
