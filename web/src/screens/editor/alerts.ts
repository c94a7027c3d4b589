// The alerts of the form: which field says how much a condition takes.
export const ALERTS = ['failed', 'late', 'long', 'deadline', 'dead_letter', 'missing'] as const;
export type AlertKind = (typeof ALERTS)[number];
export type Alert = Record<string, unknown> & { on: AlertKind };

const AMOUNTS: Partial<Record<AlertKind, { field: string; placeholder: string }>> = {
  failed: { field: 'after', placeholder: '1' },
  late: { field: 'by', placeholder: '1m' },
  long: { field: 'by', placeholder: '30m' },
  deadline: { field: 'at', placeholder: '06:00' },
  missing: { field: 'within', placeholder: '26h' },
};
/** What a new condition needs besides its kind. */
const NEEDED: Partial<Record<AlertKind, Record<string, string>>> = {
  late: { by: '1m' },
  long: { by: '30m' },
  deadline: { at: '06:00' },
  missing: { within: '26h' },
};

/** One alert or a list of them; what is not an alert yet counts as one for failures. */
export function alertsOf(raw: unknown): Alert[] {
  const list: unknown[] = Array.isArray(raw) ? raw : raw === undefined || raw === null ? [] : [raw];
  return list.map((each) => {
    const alert = typeof each === 'object' && each !== null ? (each as Record<string, unknown>) : {};
    const on = ALERTS.find((kind) => kind === alert['on']) ?? 'failed';
    return { ...alert, on };
  });
}

/** The field that says how much. Null means that the condition has none. */
export function amountOf(alert: Alert): { field: string; placeholder: string } | null {
  if (alert.on === 'failed' && 'of' in alert) return { field: 'of', placeholder: '3' };
  return AMOUNTS[alert.on] ?? null;
}

/** The alert with another condition: its channels and its repetition stay. */
export function withCondition(alert: Alert | undefined, on: AlertKind): Alert {
  const kept = Object.entries(alert ?? {}).filter(([field]) => field === 'to' || field === 'repeat');
  return { on, ...NEEDED[on], ...Object.fromEntries(kept) };
}
