// One timer for all times on the page. Each time writes its own text node, so no list renders again.
type Update = (now: number) => void;

const updates = new Set<Update>();
let timer: ReturnType<typeof setInterval> | undefined;

/** Calls `update` now and every second; returns a function that stops it. */
export function tick(update: Update): () => void {
  update(Date.now());
  updates.add(update);
  timer ??= setInterval(() => {
    if (document.hidden) return;
    const now = Date.now();
    for (const each of updates) each(now);
  }, 1000);
  return () => {
    updates.delete(update);
    if (updates.size === 0) {
      clearInterval(timer);
      timer = undefined;
    }
  };
}
