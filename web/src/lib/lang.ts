// The language that was chosen, or else that of the browser.
import { stored } from './stored';
import type { Lang } from './time';

export function storedLang(): Lang {
  const chosen = stored('punctual.lang');
  if (chosen === 'en' || chosen === 'zh') return chosen;
  return navigator.language.toLowerCase().startsWith('zh') ? 'zh' : 'en';
}
