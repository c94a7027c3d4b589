// Language and theme: kept in localStorage, applied to <html>.
import { storedLang } from './lang';
import { store, stored } from './stored';
import type { Lang } from './time';

export type Theme = 'light' | 'dark' | 'system';

const dark = matchMedia('(prefers-color-scheme: dark)');

function firstTheme(): Theme {
  const chosen = stored('punctual.theme');
  return chosen === 'light' || chosen === 'dark' ? chosen : 'system';
}

class Prefs {
  lang: Lang = $state(storedLang());
  theme: Theme = $state(firstTheme());
  #systemIsDark = $state(dark.matches);
  readonly isDark: boolean = $derived(
    this.theme === 'dark' || (this.theme === 'system' && this.#systemIsDark),
  );

  constructor() {
    dark.addEventListener('change', (event) => (this.#systemIsDark = event.matches));
  }

  setLang(lang: Lang): void {
    this.lang = lang;
    store('punctual.lang', lang);
  }

  setTheme(theme: Theme): void {
    this.theme = theme;
    store('punctual.theme', theme);
  }
}

export const prefs = new Prefs();

/** Writes the choices to <html>; call it in an effect. */
export function applyPrefs(): void {
  document.documentElement.lang = prefs.lang === 'zh' ? 'zh-CN' : 'en';
  document.documentElement.dataset.theme = prefs.isDark ? 'dark' : 'light';
}
