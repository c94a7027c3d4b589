// Streams are open only while the page is in view: over HTTP/1.1 a browser opens six connections to a server for all
// of its tabs together, and a seventh tab would wait for them forever.

/** Resolves when the page is in view, or when `stop` ends. */
export function inView(stop: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const seen = new AbortController();
    const look = () => {
      if (document.hidden && !stop.aborted) return;
      seen.abort();
      resolve();
    };
    document.addEventListener('visibilitychange', look, seen);
    stop.addEventListener('abort', look, seen);
    look();
  });
}

/** Is aborted when the page is hidden, or when `stop` ends. The caller aborts it when its work is done. */
export function untilHidden(stop: AbortSignal): AbortController {
  const made = new AbortController();
  const look = () => {
    if (document.hidden || stop.aborted) made.abort();
  };
  document.addEventListener('visibilitychange', look, made);
  stop.addEventListener('abort', look, made);
  look();
  return made;
}
