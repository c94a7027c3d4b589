SELECT id FROM history /*! FORCE INDEX (history_of_job) */
WHERE job IS NULL AND {mysql place else finished_at} < $1
    AND NOT EXISTS (SELECT 1 FROM dead_letters WHERE dead_letters.run = history.id)
ORDER BY {mysql place else finished_at} LIMIT $2
