// Fills a server with the jobs of a payment company, through REST. Returns the addresses of the screens by name.
import { descriptorSet } from '../tests/browser/descriptor-set.mjs';
import { setTimeout as sleep } from 'node:timers/promises';

const NS = 'namespaces/payments';
const sometimes = (odds, shell, error) =>
  `[ $((\${PUNCTUAL_RUN_ID%??????} % ${odds})) -ne 0 ] || { echo "error: ${error}" >&2; exit 1; }; ${shell}`;

const SETTLE = String.raw`
say() { printf '\033[90m%s\033[0m %b\n' "$(date -u +%H:%M:%S)" "$*"; sleep 0.3; }
say '\033[1msettling 2026-11-16\033[0m, 3 currencies, 4 acquirers'
for acquirer in north east south west; do
  say "$acquirer: 18,204 payments read from the ledger"
  say "$acquirer: \033[32mbalanced\033[0m, fees 0.29 %"
  if [ "$acquirer" = south ] && [ "$PUNCTUAL_ATTEMPT" = 1 ]; then
    echo "error: south: the settlement file of 02:00 is not there yet" >&2; exit 3
  fi
done
say '72,816 payments settled, \033[32m0 differences\033[0m'`;

/** Reports how far it is and a checkpoint, and is at work while the pictures are made. */
const MIGRATE = String.raw`
for million in 1 2 3 4 5 6; do
  echo "moved $million,000,000 rows"
  echo '{"percent":'$((million * 10 + 2))',"message":"'$million',241,000 of 10,000,000 rows","checkpoint":{"row":'$million'241000}}' > "$PUNCTUAL_REPORT"
  sleep 2
done
sleep 3600`;

/** A branch has failed, a step is at work and another waits for an approval while the pictures are made. */
const CLOSE = {
  steps: {
    ledger: {
      task: { shell: 'sleep 1; echo \'{"acquirers":["north","east","south","west"],"holiday":false}\'' },
    },
    fees: {
      needs: ['ledger'],
      map: 'steps.ledger.output.acquirers',
      parallel: 2,
      task: { process: { command: ['sh', '-c', 'sleep 1; echo "$0: fees 0.29 %"', '{{ item }}'] } },
    },
    rates: {
      needs: ['ledger'],
      task: {
        shell:
          'echo "asking the central bank for 31 rates"; sleep 1; echo "error: no rates for 2026-11-16 yet" >&2; exit 4',
      },
      retry: { attempts: 2, delay: '1s' },
    },
    notice: { needs: ['ledger'], when: 'steps.ledger.output.holiday', task: { noop: {} } },
    settle: {
      needs: ['fees'],
      task: {
        workflow: {
          steps: {
            book: { task: { shell: 'sleep 1; echo 72,816 entries booked' } },
            transfers: {
              needs: ['book'],
              task: { shell: 'for n in 1 2 3; do echo "file $n of 8 sent"; sleep 1; done; sleep 3600' },
            },
          },
        },
      },
    },
    review: { needs: ['fees'], approve: { within: '2d' } },
    revalue: { needs: ['rates'], task: { noop: {} } },
    alarm: { needs: ['rates'], rule: 'any_failed', task: { shell: 'echo the treasury is told' } },
    payouts: { needs: ['settle', 'review'], task: { queue: { name: 'bank-transfers' } } },
    report: { needs: ['settle', 'revalue'], rule: 'all_done', task: { shell: './report.sh' } },
  },
  finally: { unlock: { task: { shell: 'echo the ledger is open' } } },
};

/** It fails in the middle: it can be retried from there. */
const ONBOARD = {
  steps: {
    documents: { task: { shell: 'sleep 1; echo \'{"pages": 12}\'' } },
    identity: { needs: ['documents'], task: { shell: 'sleep 1; echo verified' } },
    account: {
      needs: ['identity'],
      task: { shell: 'echo "error: the register of companies does not answer" >&2; exit 1' },
    },
    welcome: { needs: ['account'], task: { noop: {} } },
  },
  finally: { record: { task: { shell: 'echo recorded' } } },
};

const PAYOUT = {
  'four-eyes': { approve: { within: '8h' } },
  send: { needs: ['four-eyes'], task: { queue: { name: 'bank-transfers' } } },
};

const cron = (expression, timezone, calendar) => ({ cron: expression, timezone, calendar });
const JOBS = {
  'nightly-settlement': {
    description: 'Settles the day that has ended with every acquirer.',
    labels: { team: 'settlement', tier: 'critical' },
    schedule: cron('0 2 * * *', 'Europe/Berlin', 'target2'),
    task: { shell: SETTLE },
    params: { region: 'eu', currencies: ['EUR', 'GBP', 'SEK'] },
    retry: { attempts: 3, delay: '2s', backoff: 'fixed' },
    timeout: '1h',
  },
  'card-capture': {
    labels: { team: 'cards', tier: 'critical' },
    schedule: cron('*/2 6-22 * * *', 'Europe/Berlin'),
    task: { shell: 'sleep 0.$((${PUNCTUAL_RUN_ID%??????} % 4)); echo captured 14 authorisations' },
  },
  'fx-rates': {
    labels: { team: 'treasury' },
    schedule: cron('*/10 7-18 * * MON-FRI', 'Europe/London'),
    task: { shell: 'echo 31 rates' },
  },
  'fraud-scores': {
    labels: { team: 'risk' },
    schedule: cron('*/5 6-22 * * *', 'Europe/Berlin'),
    task: {
      shell: sometimes(9, 'sleep 0.2; echo scored 212 payments', 'the model did not answer within 200 ms'),
    },
    retry: { attempts: 2, delay: '1s' },
  },
  'merchant-webhooks': {
    labels: { team: 'merchants' },
    schedule: cron('*/5 * * * *', 'UTC'),
    task: { shell: sometimes(4, 'echo 8 webhooks delivered', 'https://hooks.example.com answered 503') },
    dead_letter: false,
  },
  'ledger-export': {
    labels: { team: 'data' },
    schedule: cron('*/15 * * * *', 'UTC'),
    task: { shell: 'sleep 1; echo exported' },
  },
  payouts: {
    description: 'Puts the payouts of the day into the queue of the bank connector.',
    labels: { team: 'settlement' },
    schedule: cron('0 9 * * *', 'Europe/Berlin', 'target2'),
    task: { queue: { name: 'bank-transfers' } },
  },
  'sanction-list': {
    description: 'Loads the lists of the EU, the UN and OFAC.',
    labels: { team: 'risk', tier: 'critical' },
    schedule: cron('0 */6 * * *', 'UTC'),
    task: { http: { url: 'https://lists.example.com/latest' } },
  },
  'chargeback-report': {
    labels: { team: 'disputes' },
    schedule: cron('0 7 * * MON-FRI', 'America/New_York'),
    task: {
      shell: 'echo "error: merchant $(echo $PUNCTUAL_PARAMS | cut -d\\" -f4) has no address" >&2; exit 2',
    },
    search: ['merchant'],
    overlap: 'allow',
  },
  'fraud-training': {
    labels: { team: 'risk' },
    schedule: cron('0 4 * * SUN', 'UTC'),
    task: { shell: './train.sh' },
    route: { selector: { gpu: 'a100' } },
  },
  'reconcile-merchants': {
    labels: { team: 'merchants' },
    schedule: cron('30 3 * * *', 'Europe/Berlin'),
    task: { shell: 'sleep 0.$PUNCTUAL_SHARD_INDEX; [ $PUNCTUAL_SHARD_INDEX -ne 5 ]' },
    route: { shards: 8 },
  },
  'invoice-totals': {
    description: 'Asks the order service for the totals of yesterday.',
    labels: { team: 'finance' },
    schedule: cron('15 1 * * *', 'Europe/Berlin'),
    task: {
      grpc: {
        address: 'orders.example.com:443',
        tls: {},
        method: 'orders.v1.Orders/Settle',
        message: { day: '{{ due | date }}', limits: [{ amount: 1000, currency: 'EUR' }] },
        metadata: { 'x-team': 'finance' },
        timeout: '20s',
      },
    },
  },
  'ledger-migration': {
    description: 'Moves the ledger into the new tables, row by row.',
    labels: { team: 'data' },
    task: { shell: MIGRATE },
    grace: '2m',
  },
  'close-of-day': {
    description: 'Closes the books of the day: fees, rates, settlement, payouts.',
    labels: { team: 'finance', tier: 'critical' },
    schedule: cron('30 18 * * MON-FRI', 'Europe/Berlin', 'target2'),
    task: { workflow: CLOSE },
  },
  'merchant-onboarding': {
    labels: { team: 'merchants' },
    task: { workflow: ONBOARD },
  },
  'month-end-close': {
    labels: { team: 'finance' },
    schedule: cron('0 3 1 * *', 'Europe/Berlin'),
    task: { shell: './close.sh' },
  },
};

/** These fire every ten seconds for a while, so that they have a history. */
const QUICK = ['card-capture', 'fx-rates', 'fraud-scores', 'merchant-webhooks'];
const WHILE_MS = 180_000;

export async function seed(api) {
  await api('PUT', `${NS}/calendars/target2`, {
    description: 'Days on which the European payment system settles',
    weekly: ['mon', 'tue', 'wed', 'thu', 'fri'],
    exclude: ['01-01', '2026-04-03', '2026-04-06', '05-01', '12-25', '12-26', '2027-03-26', '2027-03-29'],
  });
  const save = (name, changes) => api('PUT', `${NS}/jobs/${name}`, { ...JOBS[name], ...changes });
  for (const name of Object.keys(JOBS)) await save(name);
  for (const name of QUICK) await save(name, { schedule: { every: '10s' } });
  await api('PATCH', `${NS}/jobs/nightly-settlement`, { timeout: '30m', retry: { attempts: 4 } });
  const run = async (job, body = {}) => (await api('POST', `${NS}/jobs/${job}/run`, body)).id;
  const set_base64 = descriptorSet(['Settle', 'Import', 'Export', 'Totals']).toString('base64');
  for (const name of ['orders', 'ledger', 'fraud-scores'])
    await api('PUT', `${NS}/descriptors/${name}`, { set_base64 });
  await api('PUT', `${NS}/jobs/payout-batch`, { overlap: 'allow', task: { workflow: { steps: PAYOUT } } });
  for (const batch of ['north', 'east', 'south']) await run('payout-batch', { params: { batch } });
  const settled = await run('nightly-settlement');
  const stuck = await run('fraud-training');
  const split = await run('reconcile-merchants');
  const long = await run('ledger-migration');
  const closing = await run('close-of-day');
  const onboarding = await run('merchant-onboarding');
  for (const merchant of ['m-1044', 'm-2210', 'm-3071', 'm-3999', 'm-4102'])
    await run('chargeback-report', { params: { merchant, month: '2026-10' } });
  await run('month-end-close', { delay: '3h' });
  await api('POST', `${NS}/jobs/sanction-list/pause`);
  await api('POST', `${NS}/jobs/fx-rates/pause`);
  await sleep(25_000);
  await api('POST', `${NS}/jobs/fx-rates/resume`);
  await queues(api);
  for (const [name, owner] of [
    ['nightly-settlement', 'settle-2.bank.example:4711'],
    ['schema-migration', 'deploy-7'],
  ])
    await api('POST', `${NS}/locks/${name}`, { ttl: '1h', owner });
  await api('POST', 'tokens', { name: 'deploy', role: 'admin', expires_in: '90d' });
  await api('POST', 'tokens', { name: 'dashboard', role: 'reader' });
  await sleep(WHILE_MS);
  for (const name of QUICK) await save(name);

  const [first] = (await api('GET', `${NS}/approvals`)).items;
  const [letter] = (await api('GET', `${NS}/dead-letters`)).items;
  const link = (path, query = '') => `#${path}?ns=payments${query}`;
  return {
    now: link('/', '&scope=ns'),
    jobs: link('/jobs'),
    job: link('/jobs/merchant-webhooks'),
    'job-runs': link('/jobs/merchant-webhooks', '&tab=runs'),
    'job-log': link('/jobs/merchant-webhooks', '&tab=log'),
    'job-skips': link('/jobs/fx-rates', '&tab=skips'),
    'job-skips-none': link('/jobs/merchant-webhooks', '&tab=skips'),
    'job-revisions': link('/jobs/nightly-settlement', '&tab=revisions'),
    'job-definition': link('/jobs/nightly-settlement', '&tab=definition'),
    'job-new': link('/new-job'),
    'job-edit': link('/jobs/nightly-settlement/edit'),
    'job-grpc': link('/jobs/invoice-totals'),
    'job-grpc-edit': link('/jobs/invoice-totals/edit'),
    runs: link('/runs'),
    run: link(`/runs/${settled}`),
    'run-waiting': link(`/runs/${stuck}`),
    'run-split': link(`/runs/${split}`),
    'run-progress': link(`/runs/${long}`),
    workflow: link(`/runs/${closing}`),
    'workflow-gantt': link(`/runs/${closing}`, '&view=gantt'),
    'workflow-approval': link(`/runs/${closing}`, '&step=review'),
    'workflow-step': link(`/runs/${closing}`, '&step=rates'),
    'workflow-failed': link(`/runs/${onboarding}`, '&step=account'),
    'workflow-job': link('/jobs/close-of-day', '&tab=steps'),
    'workflow-edit': link('/jobs/close-of-day/edit'),
    calendar: link('/calendar', '&scope=ns'),
    queues: link('/queues'),
    queue: link('/queues/bank-transfers'),
    locks: link('/locks'),
    lock: link('/locks', '&lock=nightly-settlement'),
    workers: link('/workers'),
    metrics: link('/metrics'),
    approvals: link('/approvals'),
    approval: link('/approvals', `&run=${first.run}&step=${first.step}`),
    descriptors: link('/descriptors'),
    descriptor: link('/descriptors/orders'),
    'dead-letters': link('/dead-letters'),
    'dead-letter': link('/dead-letters', `&letter=${letter.id}`),
    calendars: link('/calendars'),
    'calendar-days': link('/calendars/target2'),
    tokens: link('/tokens'),
    'empty-now': '#/?ns=empty&scope=ns',
    'empty-jobs': '#/jobs?ns=empty',
    'empty-runs': '#/runs?ns=empty',
    'empty-queues': '#/queues?ns=empty',
    'empty-dead-letters': '#/dead-letters?ns=empty',
    'empty-approvals': '#/approvals?ns=empty',
    'empty-locks': '#/locks?ns=empty',
    'empty-descriptors': '#/descriptors?ns=empty',
    'empty-calendars': '#/calendars?ns=empty',
    'runs-no-match': link('/runs', '&search=nothing'),
    'run-unknown': link('/runs/1'),
    'job-unknown': link('/jobs/unknown'),
  };
}

async function queues(api) {
  const transfer = (index) => ({
    body: JSON.stringify({
      payout: `po-${7300 + index}`,
      iban: `DE00 1001 ${4000 + index}`,
      amount: `${(index * 1337) % 9000}.00 EUR`,
    }),
    ttl: '1d',
    retry: '5m',
  });
  const messages = Array.from({ length: 24 }, (_, index) => transfer(index));
  await api('POST', `${NS}/queues/bank-transfers/batch`, { messages });
  await api('POST', `${NS}/queues/bank-transfers/take`, { count: 5 });
  await api('POST', `${NS}/queues/receipts/batch`, { messages: messages.slice(0, 7) });
  await api('POST', `${NS}/queues/receipts/pause`, { direction: 'out' });
}
