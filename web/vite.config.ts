import { svelte } from '@sveltejs/vite-plugin-svelte';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { Plugin } from 'vite';
import { defineConfig } from 'vitest/config';

/**
 * Makes each icon of Lucide a template of plain SVG. Lucide draws an icon from a list of elements with spread attributes:
 * that took a third of the time to draw the page. An icon has the properties `size` and `strokeWidth`.
 */
function plainIcons(): Plugin {
  return {
    name: 'punctual-plain-icons',
    enforce: 'pre',
    transform: {
      filter: { id: /lucide\/svelte\/dist\/icons\/[\w-]+\.svelte$/ },
      handler(code) {
        const data = /iconData = (.*);/.exec(code)?.[1];
        if (!data) throw new Error('Lucide writes its icons in another way');
        const { name, size, node } = JSON.parse(data);
        const attributes = (all: object) => Object.entries(all).map(([key, value]) => ` ${key}="${value}"`);
        const drawn = node.map(([tag, all]: [string, object]) => `<${tag}${attributes(all).join('')} />`);
        return `<script>let { size = ${size}, strokeWidth = 2 } = $props();</script>
<svg xmlns="http://www.w3.org/2000/svg" class="lucide lucide-${name}" width={size} height={size} viewBox="0 0 ${size} ${size}"
fill="none" stroke="currentColor" stroke-width={strokeWidth} stroke-linecap="round" stroke-linejoin="round"
aria-hidden="true">${drawn.join('')}</svg>`;
      },
    },
  };
}

/** The scripts that the page needs besides its first one load while that one loads, not after it. */
function preloaded(): Plugin {
  return {
    name: 'punctual-preloaded',
    apply: 'build',
    transformIndexHtml: {
      order: 'post',
      handler(html, { bundle }) {
        const chunk = Object.values(bundle ?? {}).find(
          (each) => each.type === 'chunk' && each.name === 'app',
        );
        if (chunk?.type !== 'chunk') throw new Error('there is no chunk `app`');
        const link = (rel: string, href: string) => ({
          tag: 'link',
          attrs: { rel, crossorigin: true, href: `/${href}` },
        });
        const styles = [...(chunk.viteMetadata?.importedCss ?? [])];
        const scripts = [...chunk.imports, chunk.fileName].filter((href) => !html.includes(href));
        const tags = [
          ...styles.map((href) => link('stylesheet', href)),
          ...scripts.map((href) => link('modulepreload', href)),
        ];
        return { html, tags: tags.map((tag) => ({ ...tag, injectTo: 'head' as const })) };
      },
    },
  };
}

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
  plugins: [plainIcons(), svelte(), preloaded(), compressed()],
  // `browser` makes vitest load the browser build of Svelte.
  resolve: process.env.VITEST ? { conditions: ['browser'] } : {},
  server: { proxy: { '/api': 'http://127.0.0.1:7400', '/readyz': 'http://127.0.0.1:7400' } },
  build: {
    target: 'es2022',
    assetsDir: 'assets',
    // `data:` addresses would break the content security policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    rolldownOptions: {
      output: {
        // Few chunks, because every request costs a slow browser some ms. A group takes all that its modules import, unless
        // a group with a higher priority has it. Svelte is separate: devtools parse a chunk again that makes an `Error` while
        // it loads, and Svelte does. `parts` is what several screens share.
        codeSplitting: {
          groups: [
            { name: 'index', test: /\/src\/main\.ts$/, priority: 5 },
            { name: 'svelte', test: /\/node_modules\/svelte\//, priority: 4 },
            { name: 'app', test: /\/src\/start\.ts$/, priority: 3 },
            {
              name: 'parts',
              test: /\/(src\/(ui|lib|api|screens\/(calendar|jobs|run|runs))|@lucide)\//,
              minShareCount: 2,
              priority: 2,
            },
            { name: 'workflow', test: /\/src\/screens\/workflow\//, priority: 1 },
          ],
        },
      },
    },
  },
  test: { environment: 'happy-dom', include: ['tests/unit/**/*.test.ts'] },
});
