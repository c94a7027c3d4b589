//! The channels of alerts: webhooks, chats and mail servers that notifications are sent to.
//!
//! `[alerts]` of the settings has the channels. Secrets are in files, which are read again for each notification, so a
//! secret is rotated without a restart. Every request and every mail passes the egress rules.
//!
//! notifier ──notification──▶ text ──▶ message of the channel ──signature──▶ egress rules ──▶ receiver

mod chat;
mod mail;
mod secret;
pub mod settings;
mod sign;
mod text;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::Timestamp;
use punctual_core::alert::Notification;
use punctual_core::name::Name;
use punctual_core::time::Clock;
use punctual_node::AlertChannels;
use punctual_wire::rest::Incident;
use punctual_worker::{Caller, Egress};
use serde_json::json;

use settings::{Address, Channel, Http, Kind, Receiver, Settings};
use text::Text;

/// How long a receiver may take to answer. A longer time would hold up the notifications behind it.
const ANSWER_MAX: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct Channels {
    channels: BTreeMap<Name, Channel>,
    defaults: Vec<Name>,
    /// The address of the console, for links. `None` means that there are no links.
    console: Option<String>,
    caller: Caller,
    clock: Arc<dyn Clock>,
}

/// A message to a receiver.
#[derive(Debug, PartialEq, Eq)]
struct Message {
    url: String,
    headers: Vec<(&'static str, String)>,
    body: String,
}

/// What is said through a channel.
struct Said<'a> {
    /// Equal for each try to send it.
    id: String,
    text: &'a Text,
    /// What a webhook gets.
    event: serde_json::Value,
}

impl Channels {
    pub fn new(settings: &Settings, egress: Arc<Egress>, clock: Arc<dyn Clock>) -> Channels {
        Channels {
            channels: settings.channels.clone(),
            defaults: settings.defaults.clone(),
            console: settings.console.clone(),
            caller: Caller::new(egress),
            clock,
        }
    }

    async fn say(&self, channel: &Channel, said: Said<'_>) -> Result<(), String> {
        let http = match &channel.receiver {
            Receiver::Http(http) => http,
            Receiver::Mail(mail) => {
                return mail.send(self.caller.egress(), &said.id, said.text, self.clock.now()).await;
            }
        };
        let Message { url, headers, body } = self.message(http, said).await?;
        let reply = self.caller.post(&url, &headers, body, ANSWER_MAX).await?;
        chat::check(http.kind, &reply)
    }

    async fn message(&self, http: &Http, said: Said<'_>) -> Result<Message, String> {
        let url = match &http.address {
            Address::Url(url) => url.clone(),
            Address::File(path) => secret::one(path).await?,
        };
        let secrets = match &http.secret_file {
            Some(path) => secret::lines(path).await?,
            None => Vec::new(),
        };
        let now = self.clock.now();
        match http.kind {
            Kind::Webhook => {
                let body = said.event.to_string();
                let headers = sign::webhook(&secrets, &said.id, now, &body)?;
                Ok(Message { url, headers, body })
            }
            kind => chat::message(kind, url, secrets.first().map(String::as_str), said.text, now),
        }
    }

    fn channel(&self, name: &Name) -> Result<&Channel, String> {
        let unknown = || format!("no channel `{name}` is under [alerts] in the settings of this node");
        self.channels.get(name).ok_or_else(unknown)
    }
}

/// What a webhook gets, as Standard Webhooks recommends it: a type, a time and the data.
fn event(kind: &str, at: Timestamp, data: &impl serde::Serialize) -> serde_json::Value {
    json!({ "type": kind, "timestamp": at.to_string(), "data": data })
}

#[async_trait]
impl AlertChannels for Channels {
    fn names(&self) -> Vec<Name> {
        self.channels.keys().cloned().collect()
    }

    fn defaults(&self) -> Vec<Name> {
        self.defaults.clone()
    }

    async fn send(&self, id: i64, notification: &Notification) -> Result<(), String> {
        let channel = self.channel(&notification.channel)?;
        let incident = Incident::from(&notification.incident);
        let kind = format!("incident.{}", notification.occasion.as_str());
        let event = event(&kind, notification.at, &incident);
        let text = Text::of(notification, channel.language, self.console.as_deref());
        self.say(channel, Said { id: format!("notification-{id}"), text: &text, event }).await
    }

    async fn test(&self, channel: &Name) -> Result<(), String> {
        let known = self.channel(channel)?;
        let now = self.clock.now();
        let event = event("test", now, &json!({ "channel": channel.as_str() }));
        let text = Text::of_test(channel, known.language);
        self.say(known, Said { id: format!("test-{}", now.as_millis()), text: &text, event }).await
    }
}
