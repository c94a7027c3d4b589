SELECT id FROM history /*! FORCE INDEX (history_of_job) */
WHERE job = $1 AND {mysql place else id} <= $2 AND ({mysql place else id} <= $3 OR finished_at < $4)
    AND NOT EXISTS (SELECT 1 FROM dead_letters WHERE dead_letters.run = history.id)
ORDER BY {mysql place else id} LIMIT $5
