SELECT d.job,
    EXISTS (SELECT 1 FROM jobs WHERE id = d.job)
    OR EXISTS (SELECT 1 FROM history h WHERE h.job = d.job)
    OR EXISTS (SELECT 1 FROM skips s WHERE s.job = d.job)
    OR EXISTS (SELECT 1 FROM runs r WHERE r.job = d.job
        AND r.place BETWEEN ((d.job >> 12) & 1023) << 53 AND (((d.job >> 12) & 1023) << 53) + 9007199254740991)
FROM deleted_jobs d WHERE d.job > $1 ORDER BY d.job LIMIT $2
