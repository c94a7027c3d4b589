// Draws the page. `main.ts` loads it.
import './styles/tokens.css';
import './styles/base.css';
import { mount } from 'svelte';
import App from './App.svelte';
import { firstIsThere } from './first';
import { loadWords } from './i18n/i18n.svelte';
import { applyPrefs, prefs } from './lib/prefs.svelte';

/** What is nearly there is worth waiting for: the page is then drawn once, not twice. */
const WAIT_MS = 150;

applyPrefs();
// Without `await`: the words import from the chunk of this file, which would wait for itself.
void Promise.all([loadWords(prefs.lang).catch(() => {}), firstIsThere(WAIT_MS)]) // English is better than an empty page
  .then(() => mount(App, { target: document.getElementById('app')! }));
