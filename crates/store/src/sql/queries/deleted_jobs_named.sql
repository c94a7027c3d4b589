SELECT job, namespace, name FROM deleted_jobs /*! FORCE INDEX (deleted_jobs_name) */
WHERE namespace = $3 AND name = $4 AND job > $1
ORDER BY job LIMIT $2
