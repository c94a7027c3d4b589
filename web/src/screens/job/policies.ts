// The policies of a job as sentences.
import type { Words } from '../../i18n/i18n.svelte';
import type { JobFile } from '../../api/types';
import { spanWords } from '../../lib/spans';
import { visible } from '../../lib/text';
import type { Lang } from '../../lib/time';

export function policySentences(job: JobFile, words: Words['job'], lang: Lang): string[] {
  const span = (text: string) => spanWords(text, lang);
  const { retry, route, misfire, keep, limits, share, unique } = job;
  const sentences = [job.timeout ? words.timeout(span(job.timeout)) : words.noTimeout];
  if (job.grace) sentences.push(words.grace(span(job.grace)));
  const attempts = retry?.attempts ?? 1;
  // Nothing here starts the runs of a ping, and another start replaces one that has not ended.
  const started = !job.task?.ping;
  if (started)
    sentences.push(
      attempts > 1
        ? words.retries(attempts, span(retry?.delay ?? '10s'), retry?.backoff ?? 'exponential')
        : words.noRetries,
    );
  const overlap = job.overlap ?? 'skip';
  sentences.push(words.overlap[started || overlap === 'allow' ? overlap : 'replace'] ?? '');
  if (job.overlap_grace) sentences.push(words.overlapGrace(span(job.overlap_grace)));
  const policy = misfire?.policy ?? 'once';
  if (started) sentences.push(words.misfire[policy] ?? '');
  if (started && policy !== 'skip') sentences.push(words.misfireWindow(span(misfire?.window ?? '1h')));
  if (job.at_most_once) sentences.push(words.atMostOnce);
  if (started) sentences.push(job.dead_letter === false ? words.noDeadLetter : words.deadLetter);
  for (const limit of Array.isArray(limits) ? limits : limits ? [limits] : [])
    sentences.push(words.limit(limit));
  if (typeof job.priority === 'number' && job.priority !== 5) sentences.push(words.priority(job.priority));
  if (share?.key) sentences.push(words.share(visible(share.key), share.weight ?? 1));
  for (const alert of Array.isArray(job.alerts) ? job.alerts : job.alerts ? [job.alerts] : [])
    sentences.push(words.alert({ ...alert }, visible((alert.to ?? []).join(', '))));
  if (job.pause_after) sentences.push(words.pauseAfter(job.pause_after));
  if (route?.strategy && route.strategy !== 'least_loaded')
    sentences.push(words.route(words.strategies[route.strategy] ?? route.strategy));
  const labels = Object.entries(route?.selector ?? {}).map(([name, value]) => `${name}=${value}`);
  if (labels.length > 0) sentences.push(words.selector(visible(labels.join(', '))));
  if (route?.shards) sentences.push(words.shards(route.shards));
  if (unique?.key) sentences.push(words.unique(visible(unique.key)));
  sentences.push(words.keep(keep?.runs ?? 1000, keep?.days ?? 30));
  return sentences.filter(Boolean);
}

/** The kind of the task, and what it does as text. */
export function taskText(task: JobFile['task']): { kind: string; text: string } {
  if (!task) return { kind: 'noop', text: '' };
  if (typeof task.shell === 'string') return { kind: 'shell', text: task.shell };
  if (task.process) return { kind: 'process', text: task.process.command.join(' ') };
  if (task.http) return { kind: 'http', text: `${task.http.method ?? 'GET'} ${task.http.url}` };
  if (task.grpc)
    return { kind: 'grpc', text: `${task.grpc.method ?? 'punctual.v1.Executor'} ${task.grpc.address}` };
  if (task.queue) return { kind: 'queue', text: task.queue.name };
  if (task.ping) return { kind: 'ping', text: '' };
  if (task.workflow) return { kind: 'workflow', text: '' };
  if (task.function) return { kind: 'function', text: task.function };
  return { kind: 'noop', text: '' };
}
