// A schedule of a job in words.
import type { Schedule } from '../api/types';
import { cronWords } from './cron-words';
import { spanWords } from './spans';
import { inZone, type Lang } from './time';

/** The schedules of a job as a list; none means "started by hand". */
export function schedulesOf(job: { schedule?: Schedule | Schedule[] | null }): Schedule[] {
  if (!job.schedule) return [];
  return Array.isArray(job.schedule) ? job.schedule : [job.schedule];
}

/** The zone of the first schedule that has one, for times of the job. */
export function zoneOf(job: { schedule?: Schedule | Schedule[] | null }): string {
  return schedulesOf(job).find((schedule) => schedule.timezone)?.timezone ?? 'UTC';
}

/** One schedule: `daily at 02:00`, `every 5 min`, `10 min after the last run ended`. */
export function scheduleWords(schedule: Schedule, lang: Lang): string {
  const zh = lang === 'zh';
  if (schedule.cron)
    return cronWords(schedule.cron, lang, schedule.weekdays ?? 'unix') ?? `cron ${schedule.cron}`;
  if (schedule.every) {
    const words = spanWords(schedule.every, lang);
    return zh ? `每 ${words}` : `every ${words}`;
  }
  if (schedule.after_finish) {
    const words = spanWords(schedule.after_finish, lang);
    return zh ? `上次结束 ${words}后` : `${words} after the last run ended`;
  }
  if (schedule.at) {
    const words = inZone(Date.parse(schedule.at), schedule.timezone ?? 'UTC', lang);
    return zh ? `一次，${words}` : `once, ${words}`;
  }
  if (schedule.after) {
    const { job, on } = schedule.after;
    const ends = { succeeded: ['成功', 'succeeds'], failed: ['失败', 'fails'], ended: ['结束', 'ends'] }[
      on ?? 'succeeded'
    ];
    return zh ? `任务 ${job} 的运行${ends[0]}后` : `when a run of ${job} ${ends[1]}`;
  }
  if (schedule.event?.queue)
    return zh ? `队列 ${schedule.event.queue} 有消息时` : `on a message in queue ${schedule.event.queue}`;
  if (schedule.event) return zh ? `收到事件 ${schedule.event.name} 时` : `on event ${schedule.event.name}`;
  return zh ? '手动启动' : 'started by hand';
}

/** All schedules of a job in one line. */
export function jobWords(job: { schedule?: Schedule | Schedule[] | null }, lang: Lang): string {
  const all = schedulesOf(job);
  if (all.length === 0) return lang === 'zh' ? '手动启动' : 'started by hand';
  return all.map((schedule) => scheduleWords(schedule, lang)).join(lang === 'zh' ? '；' : '; ');
}
