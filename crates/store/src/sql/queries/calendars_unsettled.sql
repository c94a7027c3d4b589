SELECT {calendar} FROM calendars
WHERE settled = 0 AND (namespace, name) > ($1, $2) AND namespace = coalesce($3, namespace)
ORDER BY namespace, name LIMIT $4
