// Fills a namespace, so that every screen has something to show, with plain texts or with hostile ones.
import { descriptorSet } from './descriptor-set.mjs';
import { until } from './servers.mjs';

const PLAIN = {
  name: 'nightly',
  line: 'settled',
  long: 'Settles the day.',
  label: ['team', 'billing'],
  selector: ['disk', 'tape'],
  key: 'order-17',
  queue: 'mail',
};

const MARKUP = '<img src=x onerror=alert(1)><script>alert(2)</script>';
const TURNED = `${MARKUP}\u202e`;
const ANSI = `\u001b[31m${TURNED}\u001b[0m\u001b]8;;https://example.com\u0007link\u001b]8;;\u0007\u001b[2J`;
/** As hostile and as long as the server permits. */
const HOSTILE = {
  name: 'n'.repeat(128),
  line: ANSI,
  long: ANSI + 'x'.repeat(10_000) + ANSI,
  label: [`<b>${'l'.repeat(240)}\u202e`, TURNED + 'v'.repeat(256 - 3 - MARKUP.length)],
  selector: [`<b>${'s'.repeat(120)}`, TURNED],
  key: TURNED + 'k'.repeat(256 - 3 - MARKUP.length),
  queue: TURNED + 'q'.repeat(512 - 3 - MARKUP.length),
};

/** How the hostile texts are shown: the mark that turns text is visible. */
export const SHOWN = `${MARKUP}\\u{202e}`;

let plain;
/** Each fills its namespace once, and returns the addresses of all screens by name. */
export const seedPlain = (api) => (plain ??= seed(api, 'default', PLAIN));
export const seedHostile = (api) => seed(api, 'hostile', HOSTILE);

async function seed(api, ns, texts) {
  const at = (...parts) => ['/namespaces', ns, ...parts.map(encodeURIComponent)].join('/');
  const { name, line, long, label, selector } = texts;
  const labels = { [label[0]]: label[1] };
  const params = { customer: line, [line]: long };
  const program = 'printf "%s\\n" "$PUNCTUAL_PARAMS" "$0"; printf "%s\\n" "$0" >&2';
  const good = { process: { command: ['sh', '-c', program, long] } };
  await api('PUT', at('calendars', name), { description: long, weekly: ['mon', 'tue'], exclude: ['12-25'] });
  await api('PUT', at('descriptors', name), { set_base64: descriptorSet().toString('base64') });
  const schedule = { cron: '0 2 * * *', timezone: 'Europe/Berlin', calendar: name };
  const job = { description: long, labels, params, search: ['customer'], schedule, task: good };
  await api('PUT', at('jobs', name), { ...job, description: 'old' });
  await api('PUT', at('jobs', name), job);
  // The error of a program that does not exist names it.
  await api('PUT', at('jobs', 'broken'), { params, labels, task: { process: { command: [`./${long}`] } } });
  await api('PUT', at('jobs', 'stuck'), {
    task: { noop: {} },
    route: { selector: { [selector[0]]: selector[1] } },
  });
  await api('PUT', at('jobs', 'paused'), {
    description: long,
    schedule: { every: '1h' },
    task: { noop: {} },
  });
  const resumed = new Date(Date.now() + 30 * 86_400_000).toISOString();
  await api('POST', at('jobs', 'paused', 'pause'), { reason: line + long.slice(0, 700), until: resumed });
  await api('PUT', at('jobs', 'rested'), { schedule: { every: '1s' }, task: { noop: {} } });
  await api('POST', at('jobs', 'rested', 'pause'), {});
  await api('PUT', at('jobs', 'listener'), { schedule: { event: { name } }, task: { noop: {} } });
  const steps = { [name]: { approve: {} }, after: { needs: [name], task: { noop: {} } } };
  await api('PUT', at('jobs', 'flow'), {
    task: { workflow: { steps, finally: { end: { task: { noop: {} } } } } },
  });
  const fails = {
    [name]: { task: { shell: 'echo no; exit 1' } },
    last: { needs: [name], task: { noop: {} } },
  };
  await api('PUT', at('jobs', 'fails'), { task: { workflow: { steps: fails } } });
  await api('PUT', at('jobs', 'busy'), { task: { shell: 'sleep 3600' }, grace: '0s' });
  const done = await api('POST', at('jobs', name, 'run'), {});
  const failed = await api('POST', at('jobs', 'broken', 'run'), {});
  const waiting = await api('POST', at('jobs', 'stuck', 'run'), {});
  const free = await api('POST', at('runs'), { task: good, key: texts.key, params });
  const flow = await api('POST', at('jobs', 'flow', 'run'), {});
  const half = await api('POST', at('jobs', 'fails', 'run'), {});
  const busy = await api('POST', at('jobs', 'busy', 'run'), {});
  await api('POST', at('locks', name), { ttl: '1d', owner: label[1] });
  const message = await api('POST', at('queues', texts.queue, 'messages'), { body: long, key: texts.key });
  for (const { id } of [done, failed, free, half])
    await until(async () => (await api('GET', at('runs', id))).finished_at);
  await until(async () => (await api('GET', at('runs', busy.id))).started_at);
  const eventsOf = async (id) => (await api('GET', `${at('runs', id)}?events=true`)).events;
  await until(async () => (await eventsOf(flow.id)).some((event) => event.what === 'split'));
  // At least one due time is in the pause by now, or in a second.
  const skips = async () => (await api('GET', at('jobs', 'rested', 'skips'))).items.length > 0;
  await new Promise((later) => setTimeout(later, 1_100));
  await api('POST', at('jobs', 'rested', 'resume'), {});
  await until(skips);
  await api('PUT', at('jobs', 'rested'), { task: { noop: {} } });
  const [letter] = (await api('GET', at('dead-letters'))).items;

  const link = (path, query = {}) => {
    const search = new URLSearchParams({ ...(ns === 'default' ? {} : { ns }), ...query }).toString();
    return `#${path}${search ? `?${search}` : ''}`;
  };
  const queue = `/queues/${encodeURIComponent(texts.queue)}`;
  return {
    now: link('/', { scope: 'ns' }),
    jobs: link('/jobs'),
    'new job': link('/new-job'),
    job: link(`/jobs/${name}`),
    'runs of a job': link(`/jobs/${name}`, { tab: 'runs' }),
    'log of a job': link(`/jobs/${name}`, { tab: 'log' }),
    'skips of a job': link('/jobs/rested', { tab: 'skips' }),
    'paused job': link('/jobs/paused'),
    'job of an event': link('/jobs/listener'),
    revisions: link(`/jobs/${name}`, { tab: 'revisions', rev: '1', with: 'now' }),
    definition: link(`/jobs/${name}`, { tab: 'definition' }),
    editor: link(`/jobs/${name}/edit`),
    runs: link('/runs'),
    run: link(`/runs/${done.id}`),
    'failed run': link(`/runs/${failed.id}`),
    'waiting run': link(`/runs/${waiting.id}`),
    'running run': link(`/runs/${busy.id}`),
    'run without a job': link(`/runs/${free.id}`),
    'steps of a job': link('/jobs/flow', { tab: 'steps' }),
    workflow: link(`/runs/${flow.id}`),
    gantt: link(`/runs/${flow.id}`, { view: 'gantt' }),
    step: link(`/runs/${flow.id}`, { step: name }),
    'failed step': link(`/runs/${half.id}`, { step: name }),
    calendar: link('/calendar'),
    queues: link('/queues'),
    queue: link(queue),
    message: link(queue, { message: message.id }),
    locks: link('/locks'),
    lock: link('/locks', { lock: name }),
    workers: link('/workers'),
    metrics: link('/metrics'),
    'dead letters': link('/dead-letters'),
    'dead letter': link('/dead-letters', { letter: letter.id }),
    calendars: link('/calendars'),
    'business days': link(`/calendars/${name}`),
    approvals: link('/approvals'),
    approval: link('/approvals', { run: flow.id, step: name }),
    descriptors: link('/descriptors'),
    descriptor: link(`/descriptors/${name}`),
    tokens: link('/tokens'),
  };
}
