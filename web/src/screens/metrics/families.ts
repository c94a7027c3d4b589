// The text of `/metrics`, one family for each metric: its name, its description and its values.
export interface Family {
  name: string;
  help: string;
  samples: string[];
}

/** Lines of one metric stand together; `# HELP` or `# TYPE` begins the next one. */
export function families(text: string): Family[] {
  const all: Family[] = [];
  for (const line of text.split('\n')) {
    if (line === '' || line === '# EOF') continue;
    const [, kind, name, rest] = /^# (HELP|TYPE|UNIT) (\S+) ?(.*)$/.exec(line) ?? [];
    if (name !== undefined && all.at(-1)?.name !== name) all.push({ name, help: '', samples: [] });
    const last = all.at(-1);
    if (kind === 'HELP' && last) last.help = rest ?? '';
    else if (kind === undefined && !line.startsWith('#')) last?.samples.push(line);
  }
  return all;
}

/** The families with this text in the name, the description or a value. */
export function matching(all: Family[], search: string): Family[] {
  const wanted = search.trim().toLowerCase();
  return all.filter(({ name, help, samples }) =>
    [name, help, ...samples].some((text) => text.toLowerCase().includes(wanted)),
  );
}
