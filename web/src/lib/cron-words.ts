// The usual cron expressions in a few words, for lists. The server explains every expression exactly
// (`/api/v1/cron/explain`); what is not usual is shown as it is written.
import type { Lang } from './time';

const DAYS = ['SUN', 'MON', 'TUE', 'WED', 'THU', 'FRI', 'SAT'];
const MONTHS = ['JAN', 'FEB', 'MAR', 'APR', 'MAY', 'JUN', 'JUL', 'AUG', 'SEP', 'OCT', 'NOV', 'DEC'];
const DAY_WORDS = {
  en: ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat'],
  zh: ['周日', '周一', '周二', '周三', '周四', '周五', '周六'],
};
const MONTH_WORDS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
const MACROS: Record<string, string> = {
  '@yearly': '0 0 1 1 *',
  '@annually': '0 0 1 1 *',
  '@monthly': '0 0 1 * *',
  '@weekly': '0 0 * * 0',
  '@daily': '0 0 * * *',
  '@midnight': '0 0 * * *',
  '@hourly': '0 * * * *',
};

interface Times {
  text: string;
  /** The words already say how often, so "daily" adds nothing. */
  often: boolean;
}

/** `daily at 02:00`, `每天 02:00`; null if the expression is not one of the usual ones. */
export function cronWords(
  expression: string,
  lang: Lang,
  weekdays: 'unix' | 'quartz' = 'unix',
): string | null {
  const written = expression.trim();
  const fields = (MACROS[written.toLowerCase()] ?? written).toUpperCase().split(/\s+/);
  if (fields.length < 5 || fields.length > 7) return null;
  if (fields.length === 7 && fields[6] !== '*') return null;
  const second = fields.length > 5 ? fields[0]! : '0';
  const [minute, hour, day, month, weekday] = fields.slice(fields.length > 5 ? 1 : 0) as [
    string,
    string,
    string,
    string,
    string,
  ];
  const times = timesOf(second, minute, hour, lang);
  const days = daysOf(day, month, weekday, lang, weekdays);
  if (times === null || days === null) return null;
  return joined(times, days, lang);
}

function joined(times: Times, days: string, lang: Lang): string {
  if (lang === 'zh') {
    if (times.often) return days ? `${days}，${times.text}` : times.text;
    return `${days || '每天'} ${times.text}`;
  }
  if (times.often) return days ? `${times.text}, ${days}` : times.text;
  return `${days || 'daily'} at ${times.text}`;
}

const two = (value: string | number) => String(value).padStart(2, '0');
const isNumber = (text: string) => /^\d{1,2}$/.test(text);
const isList = (text: string) => /^\d{1,2}(,\d{1,2})*$/.test(text);
const stepOf = (text: string) => /^(?:\*|0)\/(\d{1,2})$/.exec(text)?.[1];
const rangeOf = (text: string) => /^(\d{1,2})-(\d{1,2})$/.exec(text)?.slice(1);

function timesOf(second: string, minute: string, hour: string, lang: Lang): Times | null {
  const zh = lang === 'zh';
  const often = (text: string) => ({ text, often: true });
  if (second !== '0') {
    if (minute !== '*' || hour !== '*') return null;
    if (second === '*') return often(zh ? '每秒' : 'every second');
    const step = stepOf(second);
    return step ? often(zh ? `每 ${step} 秒` : `every ${step} s`) : null;
  }
  const [step, hours] = [minute === '*' ? '1' : stepOf(minute), rangeOf(hour)];
  if (step) {
    const every =
      step === '1' ? (zh ? '每分钟' : 'every minute') : zh ? `每 ${step} 分钟` : `every ${step} min`;
    if (hour === '*') return often(every);
    const from = hours ?? (isNumber(hour) ? [hour, hour] : null);
    if (!from) return null;
    const span = `${two(from[0]!)}:00–${two(from[1]!)}:59`;
    return often(zh ? `${span} ${every}` : `${every} ${span}`);
  }
  if (!isList(minute)) return null;
  if (isNumber(minute)) {
    const at = `:${two(minute)}`;
    const past = zh ? `第 ${Number(minute)} 分` : ` at ${at}`;
    if (hour === '*') return often(zh ? `每小时${minute === '0' ? '整点' : past}` : `every hour${past}`);
    const hourStep = stepOf(hour);
    if (hourStep) {
      const about = minute === '0' ? '' : zh ? `的${past}` : past;
      return often(zh ? `每 ${hourStep} 小时${about}` : `every ${hourStep} h${about}`);
    }
    if (hours) {
      const span = `${two(hours[0]!)}${at}–${two(hours[1]!)}${at}`;
      return often(zh ? `${span} 每小时` : `hourly ${span}`);
    }
  }
  if (!isList(hour)) return null;
  const all = hour.split(',').flatMap((h) => minute.split(',').map((m) => `${two(h)}:${two(m)}`));
  return all.length <= 4 ? { text: all.join(zh ? '、' : ', '), often: false } : null;
}

const isAny = (text: string) => text === '*' || text === '?';

function daysOf(
  day: string,
  month: string,
  weekday: string,
  lang: Lang,
  count: 'unix' | 'quartz',
): string | null {
  if (!isAny(day) && !isAny(weekday)) return null;
  const months = isAny(month) ? '' : monthsOf(month, lang);
  if (months === null) return null;
  if (!isAny(weekday)) {
    const words = weekdaysOf(weekday, lang, count);
    if (words === null) return null;
    if (lang === 'zh') return months ? `${months}的${words}` : words;
    return months ? `${words} in ${months}` : words;
  }
  if (isAny(day)) {
    if (!months) return '';
    return lang === 'zh' ? `${months}每天` : `daily in ${months}`;
  }
  const zh = lang === 'zh';
  if (day === 'L') return zh ? `${months || '每月'}最后一天` : `last day of ${months || 'each month'}`;
  if (!isList(day)) return null;
  if (zh) return `${months || '每月'} ${day.split(',').join('、')} 日`;
  return months ? `${day.split(',').join(', ')} ${months}` : `monthly on day ${day.split(',').join(', ')}`;
}

function monthsOf(field: string, lang: Lang): string | null {
  const names = field.split(',').map((part) => {
    const index = isNumber(part) ? Number(part) : MONTHS.indexOf(part) + 1;
    if (index < 1 || index > 12) return null;
    return lang === 'zh' ? `${index} 月` : MONTH_WORDS[index - 1]!;
  });
  if (names.includes(null)) return null;
  return names.join(lang === 'zh' ? '、' : ', ');
}

function weekdaysOf(field: string, lang: Lang, count: 'unix' | 'quartz'): string | null {
  const index = (text: string) => {
    if (/^\d$/.test(text)) {
      const value = Number(text) - (count === 'quartz' ? 1 : 0);
      return value >= 0 && value <= 7 ? value % 7 : -1;
    }
    return DAYS.indexOf(text);
  };
  const parts = field.split(',').map((part) => {
    const ends = part.split('-').map(index);
    if (ends.length > 2 || ends.includes(-1)) return null;
    return ends.map((end) => DAY_WORDS[lang][end]!).join(lang === 'zh' ? '至' : '–');
  });
  if (parts.includes(null)) return null;
  return parts.join(lang === 'zh' ? '、' : ', ');
}
