SELECT skips.job, skips.revision, skips.from_due FROM skips LEFT JOIN jobs ON jobs.id = skips.job
WHERE skips.made_at < $3 AND skips.made_at < $1 - coalesce(jobs.keep_days * 86400000, $2)
LIMIT $4
