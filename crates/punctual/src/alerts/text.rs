//! What people read, in English and Chinese.

use std::time::Duration;

use punctual_core::alert::{Condition, Incident, Notification, Occasion, Subject};
use punctual_core::name::Name;
use punctual_core::schedule::{Language, format_duration};

/// Characters of an error. The console shows all of it.
const ERROR_MAX: usize = 400;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Text {
    /// The first line, which is also the subject of a mail.
    pub(super) title: String,
    pub(super) lines: Vec<String>,
}

impl Text {
    pub(super) fn of(notification: &Notification, language: Language, console: Option<&str>) -> Text {
        let Notification { occasion, incident, .. } = notification;
        let what = subject(incident, language);
        let title = match (language, occasion) {
            (Language::English, Occasion::Opened) => format!("Alert: {what}"),
            (Language::English, Occasion::Changed) => format!("Alert: {what}, with another error"),
            (Language::English, Occasion::Repeated) => format!("Still open: {what}"),
            (Language::English, Occasion::Ended) => format!("Over: {what}"),
            (Language::Chinese, Occasion::Opened) => format!("告警：{what}"),
            (Language::Chinese, Occasion::Changed) => format!("告警：{what}，错误发生变化"),
            (Language::Chinese, Occasion::Repeated) => format!("仍未恢复：{what}"),
            (Language::Chinese, Occasion::Ended) => format!("已恢复：{what}"),
        };
        Text { title, lines: lines(notification, language, console) }
    }

    pub(super) fn of_test(channel: &Name, language: Language) -> Text {
        let (title, line) = match language {
            Language::English => ("Test", format!("Punctual can send notifications to channel {channel}.")),
            Language::Chinese => ("测试", format!("Punctual 可以向通道 {channel} 发送通知。")),
        };
        Text { title: title.to_owned(), lines: vec![line] }
    }

    pub(super) fn whole(&self) -> String {
        let mut whole = self.title.clone();
        for line in &self.lines {
            whole.push('\n');
            whole.push_str(line);
        }
        whole
    }
}

/// What the incident is about, such as `payments/nightly: 2 runs failed in a row`.
fn subject(incident: &Incident, language: Language) -> String {
    let namespace = &incident.namespace;
    match (&incident.subject, language) {
        (Subject::Job { name, step, on, .. }, Language::English) => {
            let step = step.as_ref().map_or(String::new(), |step| format!(", step {step}"));
            format!("{namespace}/{name}{step}: {on}")
        }
        (Subject::Job { name, step, on, .. }, Language::Chinese) => {
            let step = step.as_ref().map_or(String::new(), |step| format!("，步骤 {step}"));
            format!("{namespace}/{name}{step}：{}", in_chinese(on))
        }
        (Subject::Channel(name), Language::English) => format!("channel {name} cannot be reached"),
        (Subject::Channel(name), Language::Chinese) => format!("通道 {name} 无法送达"),
    }
}

fn in_chinese(on: &Condition) -> String {
    let span = |span: &Duration| format_duration(*span);
    match on {
        Condition::Failed { after: 1 } => "运行失败".to_owned(),
        Condition::Failed { after } => format!("连续 {after} 次运行失败"),
        Condition::FailedOften { of, within } => format!("{} 内有 {of} 次运行失败", span(within)),
        Condition::Late { by } => format!("运行延迟超过 {}", span(by)),
        Condition::Long { by } => format!("运行耗时超过 {}", span(by)),
        Condition::Deadline(deadline) => {
            format!("未在 {}（{}）前成功", deadline.at(), deadline.timezone())
        }
        Condition::DeadLetter => "出现死信".to_owned(),
        Condition::Missing { within } => format!("超过 {} 没有成功的运行", span(within)),
    }
}

fn lines(notification: &Notification, language: Language, console: Option<&str>) -> Vec<String> {
    let incident = &notification.incident;
    let is_chinese = language == Language::Chinese;
    let mut lines = Vec::new();
    if !incident.error.is_empty() {
        let error: String = incident.error.trim().chars().take(ERROR_MAX).collect();
        lines.push(if is_chinese { format!("错误：{error}") } else { format!("Error: {error}") });
    }
    if let Some(run) = incident.run {
        lines.push(if is_chinese { format!("运行：{run}") } else { format!("Run: {run}") });
    }
    let (since, count) = (incident.opened_at, incident.count);
    lines.push(match (incident.ended_at, is_chinese) {
        (None, false) => format!("Since {since}, {count} so far"),
        (None, true) => format!("始于 {since}，已发生 {count} 次"),
        (Some(ended), false) => format!("From {since} to {ended}, {count} in all"),
        (Some(ended), true) => format!("自 {since} 至 {ended}，共发生 {count} 次"),
    });
    if let Some(console) = console {
        let namespace = incident.namespace.as_str().replace('/', "%2F");
        lines.push(match incident.job_name() {
            Some(job) => format!("{console}/#/jobs/{job}?ns={namespace}"),
            None => format!("{console}/#/"),
        });
    }
    lines
}

#[cfg(test)]
mod tests {
    use punctual_core::Timestamp;
    use punctual_core::alert::REPEAT;
    use punctual_core::ids::{IncidentId, JobId, RunId};

    use super::*;

    fn notification(occasion: Occasion, error: &str) -> Notification {
        let at: Timestamp = "2030-01-01T06:00:00Z".parse().unwrap();
        let name = "nightly".parse().unwrap();
        let incident = Incident {
            id: IncidentId(77),
            namespace: "payments/eu".parse().unwrap(),
            subject: Subject::Job { id: JobId(1), name, step: None, on: Condition::Failed { after: 2 } },
            opened_at: at,
            ended_at: (occasion == Occasion::Ended).then_some(at + Duration::from_secs(60)),
            last_at: at,
            count: 3,
            run: Some(RunId(5)),
            error: error.into(),
            fingerprints: Vec::new(),
            to: Vec::new(),
            repeat: REPEAT,
            notified_at: at,
            notified: 1,
            acknowledged: None,
            silence: None,
        };
        Notification { channel: "ops".parse().unwrap(), occasion, at, incident }
    }

    #[test]
    fn a_notification_is_read_in_two_languages() {
        let english = Text::of(
            &notification(Occasion::Opened, "disk full"),
            Language::English,
            Some("https://punctual.example"),
        );
        assert_eq!(
            english.whole(),
            "Alert: payments/eu/nightly: 2 runs failed in a row\nError: disk full\nRun: 5\n\
             Since 2030-01-01T06:00:00.000Z, 3 so far\n\
             https://punctual.example/#/jobs/nightly?ns=payments%2Feu"
        );
        let chinese = Text::of(&notification(Occasion::Ended, ""), Language::Chinese, None);
        assert_eq!(
            chinese.whole(),
            "已恢复：payments/eu/nightly：连续 2 次运行失败\n运行：5\n\
             自 2030-01-01T06:00:00.000Z 至 2030-01-01T06:01:00.000Z，共发生 3 次"
        );
    }

    #[test]
    fn a_title_names_the_step() {
        let mut notification = notification(Occasion::Opened, "");
        let Subject::Job { step, .. } = &mut notification.incident.subject else {
            panic!("it is about a job")
        };
        *step = Some("settle/book".into());
        let title = |language| Text::of(&notification, language, None).title;
        assert_eq!(
            title(Language::English),
            "Alert: payments/eu/nightly, step settle/book: 2 runs failed in a row"
        );
        assert_eq!(
            title(Language::Chinese),
            "告警：payments/eu/nightly，步骤 settle/book：连续 2 次运行失败"
        );
    }

    #[test]
    fn a_long_error_is_cut() {
        let text = Text::of(&notification(Occasion::Opened, &"错".repeat(4000)), Language::English, None);
        assert_eq!(text.lines[0].chars().count(), "Error: ".len() + ERROR_MAX);
    }
}
