//! Schedules in Chinese, in its own order: year, month, day, hour, then minutes and seconds.

use std::time::Duration;

use super::super::cron::{Days, DaysOfMonth, DaysOfWeek, Outline, Part, Time, Values};
use super::{Bounds, counts, instant};
use crate::time::Timestamp;
use crate::topic::{After, Ends, Gather, OnEvent, Topic};

pub(super) const MANUAL: &str = "仅在有人启动时运行";

const WEEKDAYS: [&str; 7] = ["周一", "周二", "周三", "周四", "周五", "周六", "周日"];
const UNITS: [&str; 6] = ["周", "天", "小时", "分钟", "秒", "毫秒"];

pub(super) fn every(period: Duration) -> String {
    match counts(period)[..] {
        // A count of one is left out: 每天, 每小时.
        [(1, unit)] => format!("每{}", UNITS[unit]),
        _ => format!("每 {}", span(period)),
    }
}

pub(super) fn after_finish(pause: Duration) -> String {
    format!("每次运行结束 {}后", span(pause))
}

pub(super) fn after(after: &After) -> String {
    let ends = match after.on {
        Ends::Succeeded => "成功",
        Ends::Failed => "失败",
        Ends::Ended => "结束",
    };
    format!("任务 {} 的运行{ends}后", after.job)
}

pub(super) fn event(event: &OnEvent) -> String {
    let key = event.key.as_ref().map_or(String::new(), |key| format!("（键 {key}）"));
    let gather = match event.gather {
        None => String::new(),
        Some(Gather::Debounce(quiet)) => format!("，静默 {}后", span(quiet)),
        Some(Gather::Batch { max, within }) => format!("，最多 {max} 个一批，{}内", span(within)),
    };
    match &event.topic {
        Topic::Queue(queue) => format!("队列 {queue} 有消息时{gather}"),
        Topic::Event(name) | Topic::Job(name) => format!("收到事件 {name}{key} 时{gather}"),
    }
}

pub(super) fn at(at: Timestamp) -> String {
    format!("仅一次，{}", instant(at))
}

pub(super) fn bounded(mut text: String, bounds: &Bounds<'_>) -> String {
    if let Some(calendar) = bounds.calendar {
        text += &format!("，仅限日历 `{calendar}` 中的日子");
    }
    if let Some(start) = bounds.start {
        text += &format!("，不早于 {}", instant(start));
    }
    if let Some(end) = bounds.end {
        text += &format!("，不晚于 {}", instant(end));
    }
    if let Some(max) = bounds.max_runs {
        text += &format!("，最多 {max} 次");
    }
    if let Some(jitter) = bounds.jitter {
        text += &format!("，每次最多推迟 {}", span(jitter));
    }
    text
}

pub(super) fn cron(outline: &Outline, zone: &str) -> String {
    let (date, time) = (date(outline), time(&outline.time));
    let text = if date.ends_with(['，', '）']) { date + &time } else { spaced(&date, &time) };
    if zone == "UTC" { format!("{text}（UTC）") } else { format!("{text}（{zone} 时间）") }
}

fn time(time: &Time) -> String {
    match time {
        Time::Clocks(clocks) => joined(clocks.iter().map(ToString::to_string), " 和 "),
        Time::Hours { first, last, step } => format!("{first} 至 {last} 每{}小时", step_of(*step)),
        Time::HoursFrom { first, step, .. } => format!("从 {first} 起每{}小时", step_of(*step)),
        Time::Beat { seconds: None, minutes, hours } => {
            hours_of(hours) + &beat(minutes, "每小时", "分", "分钟")
        }
        Time::Beat { seconds: Some(seconds), minutes: Values::Every, hours } => {
            hours_of(hours) + &beat(seconds, "每分钟", "秒", "秒")
        }
        Time::Beat { seconds: Some(seconds), minutes, hours } => {
            let minutes = match minutes {
                Values::Steps { first, step, .. } => all(*first, 59, *step),
                Values::Some(parts) => match parts[..] {
                    [Part::Steps { first, last, step }] => all(first, last, step),
                    _ => numbers(parts),
                },
                Values::Every => String::new(),
            };
            let within = if matches!(seconds, Values::Some(_)) { "的" } else { "内" };
            format!("{}每小时第 {minutes} 分{within}{}", hours_of(hours), beat(seconds, "", "秒", "秒"))
        }
    }
}

/// The text of a second or minute field; `whole` is the unit above it.
fn beat(values: &Values, whole: &str, unit: &str, count: &str) -> String {
    match values {
        Values::Every => format!("每{count}"),
        Values::Steps { first: 0, step, even: true } => format!("每{}{count}", step_of(*step)),
        Values::Steps { first, step, .. } => {
            format!("{whole}从第 {first} {unit}起每{}{count}", step_of(*step))
        }
        Values::Some(parts) => match parts[..] {
            [Part::Steps { first, last, step }] => {
                format!("{whole}第 {first} 至 {last} {unit}每{}{count}", step_of(step))
            }
            _ => format!("{whole}第 {} {unit}", numbers(parts)),
        },
    }
}

fn hours_of(hours: &Values) -> String {
    match hours {
        Values::Every => String::new(),
        Values::Steps { first, step, .. } => format!("{} 时内", all(*first, 23, *step)),
        Values::Some(parts) => match parts[..] {
            [Part::Steps { first, last, step }] => format!("{} 时内", all(first, last, step)),
            _ => {
                let windows = parts.iter().map(|part| {
                    let (first, last) = ends(*part);
                    format!("{first:02}:00 至 {last:02}:59")
                });
                joined(windows, " 和 ") + " "
            }
        },
    }
}

fn date(outline: &Outline) -> String {
    let Outline { time, days, months, years, .. } = outline;
    let mut text = match (years.is_empty(), months.is_empty()) {
        (false, _) => self::years(years),
        (true, false) => "每年 ".to_owned(),
        (true, true) => String::new(),
    };
    if !years.is_empty() && !months.is_empty() {
        text.push(' ');
    }
    text += &self::months(months);
    let whole = if months.is_empty() { "每月" } else { "的" };
    let daily = match time {
        Time::HoursFrom { even, .. } => !even,
        Time::Beat { hours, .. } => !matches!(hours, Values::Every | Values::Steps { .. }),
        Time::Clocks(_) | Time::Hours { .. } => true,
    };
    match days {
        None if !daily => {}
        None if months.is_empty() => text += "每天",
        None => text += "的每天",
        Some(Days::OfMonth(days)) => match (&months[..], &days.plain[..], days.has_special()) {
            ([Part::One(_)], [Part::One(day)], false) => text += &format!(" {day} 日"),
            _ => text += &spaced(whole, &days_of_month(days)),
        },
        Some(Days::OfWeek(days)) => text += &days_of_week(days, whole, "每"),
        Some(Days::Either(month, week)) => {
            let week = days_of_week(week, if months.is_empty() { "每月" } else { "" }, "每");
            text += &format!("{}或{week}", spaced(whole, &days_of_month(month)));
        }
        Some(Days::Both(month, week)) => {
            let week = days_of_week(week, "当月", "");
            text += &format!("{}，仅限{week}，", spaced(whole, &days_of_month(month)));
        }
    }
    text
}

fn days_of_month(days: &DaysOfMonth) -> String {
    let from_end = |before: u16| match before {
        0 => "最后一天".to_owned(),
        _ => format!("倒数第 {} 天", before + 1),
    };
    let mut said = Vec::new();
    match days.plain[..] {
        [] => {}
        [Part::Steps { first, last, step }] if last + step > 31 => {
            said.push(format!("从 {first} 日起每{}天", step_of(step)));
        }
        [Part::Steps { first, last, step }] => {
            said.push(format!("{first} 至 {last} 日每{}天", step_of(step)));
        }
        _ => said.push(format!("{} 日", numbers(&days.plain))),
    }
    said.extend(days.last.iter().map(|before| from_end(*before)));
    said.extend(days.nearest.iter().map(|day| format!("离 {day} 日最近的工作日（周一至周五）")));
    said.extend(days.last_nearest.iter().map(|before| match before {
        0 => "最后一个工作日（周一至周五）".to_owned(),
        before => format!("离{}最近的工作日（周一至周五）", from_end(*before)),
    }));
    joined(said.into_iter(), "和")
}

/// `whole` precedes days counted within a month, `each` a plain weekday.
fn days_of_week(days: &DaysOfWeek, whole: &str, each: &str) -> String {
    let mut said = Vec::new();
    if !days.plain.is_empty() {
        let of = if whole == "的" { "的" } else { "" };
        let names = days.plain.iter().map(|part| match ends(*part) {
            (first, last) if first == last => weekday(first).to_owned(),
            (first, last) => format!("{}至{}", weekday(first), weekday(last)),
        });
        said.push(format!("{of}{each}{}", names.collect::<Vec<_>>().join("、")));
    }
    let counted = days.nth.iter().map(|(day, count)| format!("第 {count} 个{}", weekday(*day)));
    let last = days.last.iter().map(|day| format!("最后一个{}", weekday(*day)));
    let special: Vec<String> = counted.chain(last).collect();
    if !special.is_empty() {
        let whole = if said.is_empty() || whole == "每月" { whole } else { "" };
        said.push(format!("{whole}{}", special.join("、")));
    }
    said.join("和")
}

fn months(months: &[Part]) -> String {
    let names = months.iter().map(|part| match ends(*part) {
        (first, last) if first == last => format!("{first} 月"),
        (first, last) => format!("{first} 月至 {last} 月"),
    });
    names.collect::<Vec<_>>().join("、")
}

fn years(years: &[Part]) -> String {
    match years[..] {
        [Part::Steps { first, last, step }] => format!("{first} 至 {last} 年（每{}年）", step_of(step)),
        _ => format!("{} 年", numbers(years)),
    }
}

/// `5、10、20 至 30`.
fn numbers(parts: &[Part]) -> String {
    let numbers = parts.iter().map(|part| match ends(*part) {
        (first, last) if first == last => first.to_string(),
        (first, last) => format!("{first} 至 {last}"),
    });
    numbers.collect::<Vec<_>>().join("、")
}

/// Every value of a step, listed.
fn all(first: u16, last: u16, step: u16) -> String {
    (first..=last).step_by(step.into()).map(|value| value.to_string()).collect::<Vec<_>>().join("、")
}

fn ends(part: Part) -> (u16, u16) {
    match part {
        Part::One(value) => (value, value),
        Part::Range(first, last) | Part::Steps { first, last, .. } => (first, last),
    }
}

fn weekday(day: u16) -> &'static str {
    WEEKDAYS[usize::from(day) - 1]
}

/// The number between 每 and a unit, with spaces; one is left out.
fn step_of(step: u16) -> String {
    if step == 1 { String::new() } else { format!(" {step} ") }
}

fn span(span: Duration) -> String {
    let parts = counts(span).into_iter().map(|(count, unit)| format!("{count} {}", UNITS[unit]));
    parts.collect::<Vec<_>>().join(" ")
}

/// Puts a space between a character and a digit after it.
fn spaced(before: &str, after: &str) -> String {
    let apart = !before.is_empty() && after.starts_with(|c: char| c.is_ascii_digit());
    let space = if apart { " " } else { "" };
    format!("{before}{space}{after}")
}

/// `a`, `a和b`, `a、b和c`.
fn joined(items: impl Iterator<Item = String>, and: &str) -> String {
    let mut items: Vec<String> = items.collect();
    match (items.pop(), items.is_empty()) {
        (None, _) => String::new(),
        (Some(last), true) => last,
        (Some(last), false) => format!("{}{and}{last}", items.join("、")),
    }
}
