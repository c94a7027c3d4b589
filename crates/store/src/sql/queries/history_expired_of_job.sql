SELECT place FROM history /*! FORCE INDEX (history_of_job) */
WHERE job = $1 AND {mysql job_place else place} BETWEEN 0 AND $2
    AND ({mysql job_place else place} <= $3 OR finished_at < $4)
    AND NOT EXISTS (SELECT 1 FROM dead_letters WHERE dead_letters.run = history.place)
ORDER BY {mysql job_place else place} LIMIT $5
