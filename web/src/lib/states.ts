// One colour, one icon and one word for each state.
import Ban from '@lucide/svelte/icons/ban';
import Check from '@lucide/svelte/icons/check';
import CircleCheck from '@lucide/svelte/icons/circle-check';
import CircleDashed from '@lucide/svelte/icons/circle-dashed';
import CircleDot from '@lucide/svelte/icons/circle-dot';
import CircleSlash from '@lucide/svelte/icons/circle-slash';
import Clock from '@lucide/svelte/icons/clock';
import Flag from '@lucide/svelte/icons/flag';
import Loader from '@lucide/svelte/icons/loader';
import LogOut from '@lucide/svelte/icons/log-out';
import Pause from '@lucide/svelte/icons/pause';
import SkipForward from '@lucide/svelte/icons/skip-forward';
import TimerOff from '@lucide/svelte/icons/timer-off';
import TriangleAlert from '@lucide/svelte/icons/triangle-alert';
import Unplug from '@lucide/svelte/icons/unplug';
import UserCheck from '@lucide/svelte/icons/user-check';
import X from '@lucide/svelte/icons/x';
import type { LucideIcon } from '@lucide/svelte';
import type { Words } from '../i18n/i18n.svelte';

export type AnyState = keyof Words['states'];
export type Tone = 'ok' | 'warn' | 'bad' | 'active' | 'idle';

interface Look {
  tone: Tone;
  icon: LucideIcon;
  /** The icon of a badge, to be copied. */
  drawn?: Element;
}

export const looks: Record<AnyState, Look> = {
  waiting: { tone: 'idle', icon: Clock },
  ready: { tone: 'idle', icon: CircleDot },
  running: { tone: 'active', icon: Loader },
  cancelling: { tone: 'warn', icon: CircleSlash },
  succeeded: { tone: 'ok', icon: Check },
  failed: { tone: 'bad', icon: X },
  timed_out: { tone: 'bad', icon: TimerOff },
  cancelled: { tone: 'idle', icon: Ban },
  skipped: { tone: 'idle', icon: SkipForward },
  active: { tone: 'ok', icon: CircleCheck },
  paused: { tone: 'warn', icon: Pause },
  finished: { tone: 'idle', icon: Flag },
  lost: { tone: 'bad', icon: Unplug },
  alive: { tone: 'ok', icon: CircleCheck },
  draining: { tone: 'warn', icon: LogOut },
  stuck: { tone: 'bad', icon: TriangleAlert },
  open: { tone: 'idle', icon: CircleDashed },
  approval: { tone: 'warn', icon: UserCheck },
};

/** States in which a run can still change. */
export const OPEN_STATES = ['waiting', 'ready', 'running', 'cancelling'] as const;

export function isOpen(state: AnyState): boolean {
  return (OPEN_STATES as readonly string[]).includes(state);
}
