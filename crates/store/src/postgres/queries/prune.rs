//! Pruning. It never waits: rows that another transaction has locked are skipped until the next time.

/// Deletes history by id, and adds the deleted rows to the count of each shard in `pruned`.
pub(in crate::postgres) const HISTORY: &str = "WITH gone AS (DELETE FROM history WHERE id IN \
     (SELECT id FROM history WHERE id = ANY($1::int8[]) FOR UPDATE SKIP LOCKED) RETURNING id), \
     counted AS (UPDATE pruned p SET history_runs = p.history_runs + c.runs FROM \
     (SELECT ((id >> 12) & 1023)::int2 AS shard, count(*) AS runs FROM gone GROUP BY 1) c WHERE p.shard = c.shard) \
     SELECT count(*) FROM gone";
pub(in crate::postgres) const OLD_AD_HOC: &str = "SELECT id FROM history WHERE job IS NULL AND finished_at < $1::int8 \
     AND NOT EXISTS (SELECT 1 FROM dead_letters WHERE run = history.id) ORDER BY finished_at LIMIT $2::int8";
/// The next jobs that have history, each found by one index lookup, and what they keep.
pub(in crate::postgres) const NEXT_JOBS: &str = "WITH RECURSIVE found AS (\
     (SELECT job FROM history WHERE job > $1::int8 ORDER BY job LIMIT 1) UNION ALL \
     SELECT (SELECT h.job FROM history h WHERE h.job > found.job ORDER BY h.job LIMIT 1) FROM found \
     WHERE found.job IS NOT NULL), page AS (SELECT job FROM found WHERE job IS NOT NULL LIMIT $2::int8) \
     SELECT page.job, jobs.keep_runs, jobs.keep_days FROM page LEFT JOIN jobs ON jobs.id = page.job ORDER BY page.job";
/// For every job: runs beyond the number it keeps, or that ended before the instant it keeps since. A run created after
/// that instant (`newest` is the first id of that instant) cannot have ended before it.
pub(in crate::postgres) const OLD_OF_JOBS: &str = "SELECT h.id FROM \
     unnest($1::int8[], $2::int8[], $3::int8[], $4::int8[]) AS k (job, runs, since, newest) \
     CROSS JOIN LATERAL (SELECT coalesce((SELECT b.id FROM history b WHERE b.job = k.job \
     ORDER BY b.id DESC OFFSET k.runs LIMIT 1), -1) AS id) AS beyond \
     CROSS JOIN LATERAL (SELECT o.id FROM history o WHERE o.job = k.job AND o.id <= greatest(beyond.id, k.newest) \
     AND (o.id <= beyond.id OR o.finished_at < k.since) \
     AND NOT EXISTS (SELECT 1 FROM dead_letters l WHERE l.run = o.id) ORDER BY o.id LIMIT $5::int8) AS h LIMIT $5::int8";
pub(in crate::postgres) const UNIQUES: &str = "DELETE FROM uniques WHERE (shard, key) IN (SELECT shard, key FROM uniques \
     WHERE expires_at < $1::int8 ORDER BY expires_at LIMIT $2::int8 FOR UPDATE SKIP LOCKED)";
/// `$1` is now, `$2` how long records without a job are kept, `$3` an instant that every old record is older than.
pub(in crate::postgres) const SKIPS: &str = "DELETE FROM skips WHERE (job, revision, from_due) IN (SELECT s.job, s.revision, s.from_due \
     FROM skips s LEFT JOIN jobs j ON j.id = s.job WHERE s.at < $3::int8 \
     AND s.at < $1::int8 - coalesce(j.keep_days * 86400000, $2::int8) LIMIT $4::int8 FOR UPDATE OF s SKIP LOCKED)";
/// The next deleted jobs, and whether no run or skip record needs their revisions any more.
pub(in crate::postgres) const DELETED_JOBS: &str = "SELECT d.job, NOT EXISTS (SELECT 1 FROM jobs WHERE id = d.job) \
     AND NOT EXISTS (SELECT 1 FROM history h WHERE h.job = d.job) \
     AND NOT EXISTS (SELECT 1 FROM skips s WHERE s.job = d.job) AND NOT EXISTS (SELECT 1 FROM runs r \
     WHERE r.job = d.job AND r.place BETWEEN ((d.job >> 12) & 1023) << 53 \
     AND (((d.job >> 12) & 1023) << 53) + 9007199254740991) \
     FROM (SELECT job FROM deleted_jobs WHERE job > $1::int8 ORDER BY job LIMIT $2::int8) d ORDER BY d.job";
pub(in crate::postgres) const REVISIONS: &str = "DELETE FROM revisions WHERE (job, revision) IN \
     (SELECT job, revision FROM revisions WHERE job = ANY($1::int8[]) LIMIT $2::int8)";
pub(in crate::postgres) const FORGET_JOBS: &str = "DELETE FROM deleted_jobs WHERE job = ANY($1::int8[])";
/// The next runs that have output, each found by one index lookup, and whether the run is gone.
pub(in crate::postgres) const LOGGED_RUNS: &str = "WITH RECURSIVE found AS (\
     (SELECT run FROM chunks WHERE run > $1::int8 ORDER BY run LIMIT 1) UNION ALL \
     SELECT (SELECT c.run FROM chunks c WHERE c.run > found.run ORDER BY c.run LIMIT 1) FROM found \
     WHERE found.run IS NOT NULL), page AS (SELECT run FROM found WHERE run IS NOT NULL LIMIT $2::int8) \
     SELECT page.run, NOT EXISTS (SELECT 1 FROM history WHERE id = page.run) AND NOT EXISTS (SELECT 1 FROM runs \
     WHERE place = ((((page.run >> 12) & 1023) << 53) | ((page.run >> 22) << 12) | (page.run & 4095))) \
     FROM page ORDER BY page.run";
pub(in crate::postgres) const CHUNKS: &str = "DELETE FROM chunks WHERE (run, token, number) IN \
     (SELECT run, token, number FROM chunks WHERE run = ANY($1::int8[]) LIMIT $2::int8)";
