import { describe, expect, test } from 'vitest';
import { address, match, paths, toSearch } from '../../src/lib/paths';
import { href, router } from '../../src/lib/router.svelte';

describe('addresses', () => {
  test('a path gives its screen and parameters', () => {
    expect(match('/')).toEqual({ screen: 'now', params: {} });
    expect(match('/jobs/nightly')).toEqual({ screen: 'job', params: { name: 'nightly' } });
    expect(match('/jobs/nightly/edit')?.screen).toBe('jobEdit');
    expect(match('/nowhere')).toBeNull();
  });

  test('every name survives the address', () => {
    for (const name of ['a/b', 'c?d=e', '100%', '#', '对账', '\u202ex']) {
      const path = address('job', { name }).slice(1);
      expect(match(path)).toEqual({ screen: 'job', params: { name } });
    }
  });

  test('a broken percent sign is taken as it is', () => {
    expect(match('/jobs/100%')?.params.name).toBe('100%');
  });

  test('no two screens have the same path', () => {
    expect(new Set(Object.values(paths)).size).toBe(Object.keys(paths).length);
  });

  test('empty values are left out of the query', () => {
    expect(toSearch({ a: '', b: null, c: ['x', 'y'], d: 0, e: false, f: true })).toBe('c=x&c=y&d=0&f=true');
  });
});

describe('the router', () => {
  test('filters are in the address and survive each other', () => {
    router.open('#/runs?ns=payments&state=failed');
    router.set({ search: 'card' });
    expect(router.namespace).toBe('payments');
    expect(location.hash).toBe('#/runs?ns=payments&state=failed&search=card');
    expect(router.with({ state: ['failed', 'timed_out'] })).toContain('state=failed&state=timed_out');
    router.set({ state: null }, { replace: true });
    expect(router.all('state')).toEqual([]);
  });

  test('links keep the namespace', () => {
    router.set({ ns: 'payments' });
    expect(href('job', { name: 'x' }, { tab: 'runs' })).toBe('#/jobs/x?ns=payments&tab=runs');
    router.set({ ns: null });
    expect(href('job', { name: 'x' })).toBe('#/jobs/x');
  });
});
