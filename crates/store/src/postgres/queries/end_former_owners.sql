SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a
WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND a.backend_xid IS NOT NULL
    AND a.application_name IN (
        SELECT 'punctual/' || lpad(to_hex(s.owner), 16, '0') FROM shards s
        JOIN unnest($1::int2[], $2::int8[]) AS c (shard, than) ON c.shard = s.shard
        WHERE s.owner IS NOT NULL AND s.owner IS DISTINCT FROM $3::int8 AND s.epoch = coalesce(c.than, s.epoch))
