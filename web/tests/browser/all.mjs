// Runs every test of this folder in one process, so that they share one browser and the servers.
import { readdirSync } from 'node:fs';

const here = new URL('.', import.meta.url);
for (const file of readdirSync(here).sort())
  if (file.endsWith('.test.mjs')) await import(new URL(file, here));
