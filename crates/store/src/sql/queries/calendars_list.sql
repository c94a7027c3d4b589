SELECT {calendar} FROM calendars
WHERE (namespace, name) > ($1, $2) AND namespace = coalesce($3, namespace)
ORDER BY namespace, name LIMIT $4
