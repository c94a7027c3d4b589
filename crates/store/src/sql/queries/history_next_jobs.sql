WITH RECURSIVE found AS (
    (SELECT job FROM history WHERE job > $1 ORDER BY job LIMIT 1)
    UNION ALL
    SELECT (SELECT h.job FROM history h WHERE h.job > found.job ORDER BY h.job LIMIT 1) FROM found
    WHERE found.job IS NOT NULL)
SELECT job FROM found WHERE job IS NOT NULL LIMIT $2
