//! The section `[alerts]` of the settings.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use punctual_core::name::Name;
use punctual_core::schedule::Language;
use serde::Deserialize;

use super::mail::{Mail, MailFile};

/// Channels of one node.
pub const CHANNELS_MAX: usize = 100;

/// The channels that notifications go to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    pub channels: BTreeMap<Name, Channel>,
    /// The channels of alerts that name none.
    pub defaults: Vec<Name>,
    /// The address of the console, for links. `None` means that there are no links.
    pub console: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Channel {
    pub receiver: Receiver,
    pub language: Language,
}

/// Who gets the notifications of a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Receiver {
    Http(Http),
    Mail(Mail),
}

/// A receiver of HTTP requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Http {
    pub kind: Kind,
    pub address: Address,
    /// The secret that messages are signed with. `None` means that they are not signed.
    pub secret_file: Option<PathBuf>,
}

/// The URLs of chats contain their secret, so they can be in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    Url(String),
    File(PathBuf),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Webhook,
    Slack,
    Dingtalk,
    Feishu,
    Wecom,
}

impl Kind {
    pub(super) fn word(self) -> &'static str {
        match self {
            Kind::Webhook => "webhook",
            Kind::Slack => "slack",
            Kind::Dingtalk => "dingtalk",
            Kind::Feishu => "feishu",
            Kind::Wecom => "wecom",
        }
    }

    /// Whether its receiver checks a signature.
    fn is_signed(self) -> bool {
        matches!(self, Kind::Webhook | Kind::Dingtalk | Kind::Feishu)
    }
}

/// A channel as the settings file has it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ChannelFile {
    Webhook(HttpFile),
    Slack(HttpFile),
    Dingtalk(HttpFile),
    Feishu(HttpFile),
    Wecom(HttpFile),
    Email(MailFile),
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HttpFile {
    url: Option<String>,
    url_file: Option<PathBuf>,
    secret_file: Option<PathBuf>,
    language: Option<String>,
}

impl Settings {
    /// Checks the section.
    pub fn read(
        channels: BTreeMap<String, ChannelFile>,
        default: &[String],
        language: &str,
        console: &str,
    ) -> Result<Settings, String> {
        if channels.len() > CHANNELS_MAX {
            return Err(format!("alerts.channels: at most {CHANNELS_MAX}"));
        }
        let language = read_language("alerts.language", language)?;
        let channels = channels.into_iter().map(|(name, file)| {
            let field = format!("alerts.channels.{name}");
            let channel = file.complete(&field, language)?;
            Ok((name.parse::<Name>().map_err(|error| format!("{field}: {error}"))?, channel))
        });
        let channels = channels.collect::<Result<BTreeMap<_, _>, String>>()?;
        let mut defaults = BTreeSet::new();
        for name in default {
            let known = channels.keys().find(|channel| channel.as_str() == name);
            let known = known
                .ok_or_else(|| format!("alerts.default: no channel `{name}` is under [alerts.channels]"))?;
            defaults.insert(known.clone());
        }
        if !(console.is_empty() || console.starts_with("https://") || console.starts_with("http://")) {
            return Err(format!(
                "alerts.console: `{console}` is no address; write it like https://punctual.example"
            ));
        }
        let console = Some(console.trim_end_matches('/').to_owned()).filter(|console| !console.is_empty());
        Ok(Settings { channels, defaults: defaults.into_iter().collect(), console })
    }
}

fn read_language(field: &str, text: &str) -> Result<Language, String> {
    text.parse().map_err(|error| format!("{field}: {error}"))
}

impl ChannelFile {
    fn complete(self, field: &str, language: Language) -> Result<Channel, String> {
        let (kind, file) = match self {
            ChannelFile::Webhook(file) => (Kind::Webhook, file),
            ChannelFile::Slack(file) => (Kind::Slack, file),
            ChannelFile::Dingtalk(file) => (Kind::Dingtalk, file),
            ChannelFile::Feishu(file) => (Kind::Feishu, file),
            ChannelFile::Wecom(file) => (Kind::Wecom, file),
            ChannelFile::Email(mut file) => {
                let language = own_language(field, file.language.take(), language)?;
                return Ok(Channel { receiver: Receiver::Mail(file.complete(field)?), language });
            }
        };
        let language = own_language(field, file.language.clone(), language)?;
        Ok(Channel { receiver: Receiver::Http(file.complete(kind, field)?), language })
    }
}

fn own_language(field: &str, own: Option<String>, default: Language) -> Result<Language, String> {
    own.map_or(Ok(default), |own| read_language(&format!("{field}.language"), &own))
}

impl HttpFile {
    fn complete(self, kind: Kind, field: &str) -> Result<Http, String> {
        let HttpFile { url, url_file, secret_file, language: _ } = self;
        let address = match (url, url_file) {
            (Some(url), None) if url.starts_with("https://") || url.starts_with("http://") => {
                Address::Url(url)
            }
            (Some(_), None) => return Err(format!("{field}.url: begins with https:// or http://")),
            (None, Some(path)) => Address::File(path),
            _ => return Err(format!("{field}: set either url or url_file, the file with the URL")),
        };
        if secret_file.is_some() && !kind.is_signed() {
            return Err(format!(
                "{field}.secret_file: messages of {} are not signed; remove it",
                kind.word()
            ));
        }
        Ok(Http { kind, address, secret_file })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(channels: &str, default: &[&str]) -> Result<Settings, String> {
        let default: Vec<String> = default.iter().map(|name| (*name).to_owned()).collect();
        Settings::read(toml::from_str(channels).unwrap(), &default, "zh", "https://punctual.example/")
    }

    #[test]
    fn a_channel_has_a_url_or_a_file_with_it() {
        let settings = read(
            "[ops]\ntype = 'webhook'\nurl = 'https://ops.example'\nsecret_file = '/etc/ops'\n\
             [chat]\ntype = 'slack'\nurl_file = '/etc/slack'\nlanguage = 'en'",
            &["ops"],
        )
        .unwrap();
        let languages: Vec<_> = settings.channels.values().map(|channel| channel.language).collect();
        assert_eq!(languages, [Language::English, Language::Chinese]);
        assert_eq!(settings.console.as_deref(), Some("https://punctual.example"));
        assert_eq!(settings.defaults.len(), 1);
    }

    #[test]
    fn a_wrong_channel_is_refused_with_its_field() {
        for (channels, default, expected) in [
            ("[a]\ntype = 'slack'", &[][..], "alerts.channels.a: set either"),
            ("[a]\ntype = 'slack'\nurl = 'ftp://a'", &[], "alerts.channels.a.url"),
            (
                "[a]\ntype = 'slack'\nurl = 'https://a'\nsecret_file = 'b'",
                &[],
                "alerts.channels.a.secret_file",
            ),
            ("['a b']\ntype = 'slack'\nurl = 'https://a'", &[], "alerts.channels.a b"),
            ("[a]\ntype = 'slack'\nurl = 'https://a'\nlanguage = 'fr'", &[], "alerts.channels.a.language"),
            ("", &["a"], "alerts.default"),
            ("[a]\ntype = 'email'\nhost = ''\nfrom = 'a@b.c'\nto = ['d@e.f']", &[], "alerts.channels.a.host"),
        ] {
            let error = read(channels, default).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
