// Language and theme: kept in localStorage, applied to <html>.
import type { Lang } from './time';

export type Theme = 'light' | 'dark' | 'system';

const dark = matchMedia('(prefers-color-scheme: dark)');

function stored(name: string): string | null {
  try {
    return localStorage.getItem(name);
  } catch {
    return null; // storage is blocked: the choice lasts as long as the page
  }
}

function store(name: string, value: string): void {
  try {
    localStorage.setItem(name, value);
  } catch {
    // as above
  }
}

function firstLang(): Lang {
  const chosen = stored('punctual.lang');
  if (chosen === 'en' || chosen === 'zh') return chosen;
  return navigator.language.toLowerCase().startsWith('zh') ? 'zh' : 'en';
}

function firstTheme(): Theme {
  const chosen = stored('punctual.theme');
  return chosen === 'light' || chosen === 'dark' ? chosen : 'system';
}

class Prefs {
  lang: Lang = $state(firstLang());
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
