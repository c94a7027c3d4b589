// The runs that run now, in all namespaces: runs are listed by namespace, workers are not.
import { api, inNs, isAbort, url } from '../../api/client';
import { live, touches } from '../../api/live.svelte';
import type { NamespaceCounts, Page, Run } from '../../api/types';

const NAMESPACES_MAX = 20;
const LIMIT = 200;
const CALM_MS = 2_000;

class Running {
  runs: Run[] = $state.raw([]);
}

export function runningRuns(): Running {
  const state = new Running();
  $effect(() => {
    const stop = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const read = async () => {
      timer = undefined;
      const { signal } = stop;
      try {
        const { items } = await api.get<{ items: NamespaceCounts[] }>('/api/v1/namespaces', undefined, {
          signal,
        });
        const pages = await Promise.all(
          items
            .slice(0, NAMESPACES_MAX)
            .map(({ name }) =>
              api.get<Page<Run>>(
                url(inNs(name, 'runs'), { state: 'running', children: true, limit: LIMIT }),
                undefined,
                { signal },
              ),
            ),
        );
        state.runs = pages.flatMap((page) => page.items);
      } catch (error) {
        // The slots stay drawn from the counts; the list of workers shows the error of an unreachable node.
        if (!isAbort(error)) state.runs = [];
      }
    };
    void read();
    const unfollow = live.onChange((change) => {
      if (touches(change, ['runs', 'workers']) && !document.hidden) timer ??= setTimeout(read, CALM_MS);
    });
    return () => {
      stop.abort();
      clearTimeout(timer);
      unfollow();
    };
  });
  return state;
}
