WITH hit AS (
    UPDATE shards s SET commit_no = s.commit_no + 1, last_id = f.last_id, jobs = s.jobs + f.jobs,
        live_runs = s.live_runs + f.live_runs, history_runs = s.history_runs + f.history_runs,
        dead_letters = s.dead_letters + f.dead_letters
    FROM unnest($1::int2[], $2::int8[], $3::int8[], $4::int8[], $5::int8[], $6::int8[], $7::int8[], $8::int8[])
        AS f (shard, epoch, commit_no, last_id, jobs, live_runs, history_runs, dead_letters)
    WHERE s.shard = f.shard AND s.epoch = f.epoch AND s.commit_no = f.commit_no
    RETURNING 1)
SELECT 1 / (count(*) = cardinality($1))::int FROM hit
