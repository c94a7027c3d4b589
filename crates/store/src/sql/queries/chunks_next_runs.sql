WITH RECURSIVE found AS (
    (SELECT run FROM chunks WHERE run > $1 ORDER BY run LIMIT 1)
    UNION ALL
    SELECT (SELECT c.run FROM chunks c WHERE c.run > found.run ORDER BY c.run LIMIT 1) FROM found
    WHERE found.run IS NOT NULL)
SELECT run FROM found WHERE run IS NOT NULL LIMIT $2
