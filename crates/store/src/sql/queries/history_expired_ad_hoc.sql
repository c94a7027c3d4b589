SELECT place FROM history /*! FORCE INDEX (history_of_job) */
WHERE job IS NULL AND {mysql job_place >= 0 AND job_place else parent IS NULL AND finished_at} < $1
    AND NOT EXISTS (SELECT 1 FROM dead_letters WHERE dead_letters.run = history.place)
ORDER BY {mysql job_place else finished_at} LIMIT $2
