// Begins everything that the page waits for, at once: the scripts of the frame and of the open screen, its first answers,
// and the words. What is imported here is small, because all of it waits for this file.
import { beginFirst } from './first';
import { storedLang } from './lib/lang';

beginFirst(location.hash);
if (storedLang() === 'zh') import('./i18n/zh').catch(() => {}); // who needs the words asks again
void import('./start');
