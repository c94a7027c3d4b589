import { svelte } from '@sveltejs/vite-plugin-svelte';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { Plugin } from 'vite';
import { defineConfig } from 'vitest/config';

/** Writes a `.gz` beside each text file of the build, so that the server does not compress at run time. */
function compressed(): Plugin {
  return {
    name: 'punctual-compressed',
    apply: 'build',
    async writeBundle(options) {
      const dir = options.dir ?? 'dist';
      const names = await readdir(dir, { recursive: true });
      const texts = names.filter((name) => /\.(html|js|css|svg|json|txt)$/.test(name));
      await Promise.all(
        texts.map(async (name) => {
          const packed = await promisify(gzip)(await readFile(join(dir, name)), { level: 9 });
          await writeFile(join(dir, `${name}.gz`), packed);
        }),
      );
    },
  };
}

export default defineConfig({
  plugins: [svelte(), compressed()],
  // `browser` makes vitest load the browser build of Svelte.
  resolve: process.env.VITEST ? { conditions: ['browser'] } : {},
  server: { proxy: { '/api': 'http://127.0.0.1:7400', '/readyz': 'http://127.0.0.1:7400' } },
  build: {
    target: 'es2022',
    assetsDir: 'assets',
    // `data:` addresses would break the content security policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  test: { environment: 'happy-dom', include: ['tests/unit/**/*.test.ts'] },
});
