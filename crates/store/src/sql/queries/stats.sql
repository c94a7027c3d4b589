SELECT sum(s.jobs)::int8, sum(s.live_runs)::int8, (sum(s.history_runs) - sum(p.history_runs))::int8,
    sum(s.dead_letters)::int8
FROM shards s JOIN pruned p ON p.shard = s.shard
