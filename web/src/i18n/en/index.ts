import { approvals } from './approvals';
import { calendar } from './calendar';
import { calendars } from './calendars';
import { common } from './common';
import { deadLetters } from './dead-letters';
import { descriptors } from './descriptors';
import { editor } from './editor';
import { errors } from './errors';
import { event } from './event';
import { exports } from './exports';
import { hold } from './hold';
import { incidents } from './incidents';
import { job } from './job';
import { jobs } from './jobs';
import { locks } from './locks';
import { metrics } from './metrics';
import { now } from './now';
import { queue } from './queue';
import { queues } from './queues';
import { run } from './run';
import { runs } from './runs';
import { shell } from './shell';
import { states } from './states';
import { submit } from './submit';
import { tokens } from './tokens';
import { workers } from './workers';
import { workflow } from './workflow';

export const en = {
  common,
  states,
  errors,
  shell,
  now,
  jobs,
  job,
  editor,
  event,
  runs,
  submit,
  run,
  workflow,
  calendar,
  queues,
  queue,
  workers,
  calendars,
  tokens,
  deadLetters,
  approvals,
  incidents,
  descriptors,
  exports,
  locks,
  hold,
  metrics,
};
