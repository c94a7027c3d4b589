INSERT INTO sessions {mysql  else AS s} (id, node, address, weight, embedded, busy, since, until)
VALUES ($1, $2, $3, $4, $5, $6, {now}, {now} + $7)
{mysql ON DUPLICATE KEY UPDATE node = VALUES(node), address = VALUES(address), weight = VALUES(weight),
    embedded = VALUES(embedded), busy = VALUES(busy),
    since = IF(until <= VALUES(since), VALUES(since), since), until = VALUES(until)
else ON CONFLICT (id) DO UPDATE SET node = excluded.node, address = excluded.address, weight = excluded.weight,
    embedded = excluded.embedded, busy = excluded.busy, until = excluded.until,
    since = CASE WHEN s.until <= excluded.since THEN excluded.since ELSE s.since END}
