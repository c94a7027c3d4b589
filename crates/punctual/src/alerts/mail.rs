//! Mail: a notification as a plain text, over SMTP.
//!
//! The `Message-ID` follows from the notification, so that a mail that is sent again has the same one.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use lettre::Message;
use lettre::message::Mailbox;
use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{AsyncSmtpConnection, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use punctual_core::Timestamp;
use punctual_worker::Egress;
use serde::Deserialize;
use tokio::time::timeout;

use super::text::Text;
use super::{ANSWER_MAX, secret};

/// The addresses that one channel sends to.
const TO_MAX: usize = 20;
/// How long one address of the mail server may take to accept a connection. Then the next address is tried.
const CONNECT_MAX: Duration = Duration::from_secs(3);
/// How long a server that has taken a mail may take to say goodbye.
const QUIT_MAX: Duration = Duration::from_secs(1);

/// A mail server, and who writes to whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mail {
    host: String,
    port: u16,
    tls: Tls,
    /// `None` means that the server asks for no password.
    login: Option<Login>,
    from: Mailbox,
    to: Vec<Mailbox>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Login {
    username: String,
    password_file: PathBuf,
}

/// When the connection is encrypted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Tls {
    /// After the command STARTTLS, which the server must offer.
    #[default]
    Starttls,
    /// From the first byte.
    Implicit,
    /// Never. Only for a server on this machine.
    None,
}

impl Tls {
    fn default_port(self) -> u16 {
        match self {
            Tls::Starttls => 587,
            Tls::Implicit => 465,
            Tls::None => 25,
        }
    }
}

/// A mail channel as the settings file has it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MailFile {
    host: String,
    port: Option<u16>,
    #[serde(default)]
    tls: Tls,
    username: Option<String>,
    password_file: Option<PathBuf>,
    from: String,
    to: Vec<String>,
    pub(super) language: Option<String>,
}

impl MailFile {
    pub(super) fn complete(self, field: &str) -> Result<Mail, String> {
        let MailFile { host, port, tls, username, password_file, from, to, language: _ } = self;
        if host.is_empty() || host.contains(|c: char| c.is_whitespace() || c == '/') {
            return Err(format!("{field}.host: `{host}` is no host; write it like smtp.example.com"));
        }
        if tls == Tls::None && !is_this_machine(&host) {
            return Err(format!("{field}.tls: `none` is only for a mail server on localhost"));
        }
        let login = match (username, password_file) {
            (Some(username), Some(password_file)) => Some(Login { username, password_file }),
            (None, None) => None,
            _ => return Err(format!("{field}: set both username and password_file, or none of them")),
        };
        let mailbox = |of: &str, text: &str| {
            let example = "write it like Punctual <punctual@example.com>";
            text.parse().map_err(|_| format!("{field}.{of}: `{text}` is no mail address; {example}"))
        };
        if !(1..=TO_MAX).contains(&to.len()) {
            return Err(format!("{field}.to: name 1 to {TO_MAX} mail addresses"));
        }
        let from = mailbox("from", &from)?;
        let to = to.iter().map(|text| mailbox("to", text)).collect::<Result<_, String>>()?;
        Ok(Mail { host, port: port.unwrap_or(tls.default_port()), tls, login, from, to })
    }
}

fn is_this_machine(host: &str) -> bool {
    host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

impl Mail {
    pub(super) async fn send(
        &self,
        egress: &Egress,
        id: &str,
        text: &Text,
        now: Timestamp,
    ) -> Result<(), String> {
        let message = self.message(id, text, now)?;
        let mut connection = match timeout(ANSWER_MAX, self.hand_over(egress, &message)).await {
            Ok(connection) => connection?,
            Err(_) => {
                return Err(format!(
                    "{}:{} has not taken the mail within {} s; check host, port and tls",
                    self.host,
                    self.port,
                    ANSWER_MAX.as_secs()
                ));
            }
        };
        // The mail was taken. What the server says now changes nothing.
        let _ = timeout(QUIT_MAX, connection.quit()).await;
        Ok(())
    }

    fn message(&self, id: &str, text: &Text, now: Timestamp) -> Result<Message, String> {
        let since_epoch = Duration::from_millis(u64::try_from(now.as_millis()).unwrap_or_default());
        // No machine answers a mail with this header.
        let name = HeaderName::new_from_ascii_str("Auto-Submitted");
        let mut message = Message::builder()
            .from(self.from.clone())
            .date(SystemTime::UNIX_EPOCH + since_epoch)
            .message_id(Some(format!("<{id}@{}>", self.from.email.domain())))
            .subject(text.title.as_str())
            .raw_header(HeaderValue::new(name, "auto-generated".to_owned()))
            .header(ContentType::TEXT_PLAIN);
        for to in &self.to {
            message = message.to(to.clone());
        }
        message.body(text.whole()).map_err(|error| format!("cannot write the mail: {error}"))
    }

    /// Returns the connection after the server has taken the mail.
    async fn hand_over(&self, egress: &Egress, message: &Message) -> Result<AsyncSmtpConnection, String> {
        let (host, port) = (&self.host, self.port);
        let credentials = match &self.login {
            Some(login) => Some(login.credentials().await?),
            None => None,
        };
        let addresses = egress.addresses(host, port).await.map_err(|refused| refused.to_string())?;
        let tls = match self.tls {
            Tls::None => None,
            Tls::Starttls | Tls::Implicit => Some(tls_with(host.clone()).await?),
        };
        let me = ClientId::default();
        let from_first_byte = tls.clone().filter(|_| self.tls == Tls::Implicit);
        let connected = AsyncSmtpConnection::connect_tokio1(
            &addresses[..],
            Some(CONNECT_MAX),
            &me,
            from_first_byte,
            None,
        );
        let mut connection =
            connected.await.map_err(|error| format!("cannot connect to {host}:{port}: {error}"))?;
        if let Some(tls) = tls.filter(|_| self.tls == Tls::Starttls) {
            let started = connection.starttls(tls, &me).await;
            started.map_err(|error| format!("cannot begin TLS with {host}:{port}: {error}"))?;
        }
        if let Some(credentials) = credentials {
            let accepted = connection.auth(&[Mechanism::Plain, Mechanism::Login], &credentials).await;
            accepted.map_err(|error| {
                format!("{host}:{port} did not accept the username and the password: {error}")
            })?;
        }
        let taken = connection.send(message.envelope(), &message.formatted()).await;
        taken.map_err(|error| format!("{host}:{port} did not take the mail: {error}"))?;
        Ok(connection)
    }
}

impl Login {
    async fn credentials(&self) -> Result<Credentials, String> {
        Ok(Credentials::new(self.username.clone(), secret::one(&self.password_file).await?))
    }
}

/// Trusts the authorities of the machine, which it reads from files.
async fn tls_with(host: String) -> Result<TlsParameters, String> {
    let made = tokio::task::spawn_blocking(|| TlsParameters::new(host)).await;
    made.map_err(|error| error.to_string())?.map_err(|error| format!("cannot use TLS: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_599_360_473_000);

    fn read(rest: &str) -> Result<Mail, String> {
        let file = format!("from = 'Punctual <punctual@example.com>'\n{rest}");
        toml::from_str::<MailFile>(&file).map_err(|error| error.to_string())?.complete("mail")
    }

    #[test]
    fn the_port_follows_from_tls() {
        for (tls, port) in [("starttls", 587), ("implicit", 465), ("none", 25)] {
            let mail = read(&format!("host = 'localhost'\ntls = '{tls}'\nto = ['a@example.com']")).unwrap();
            assert_eq!(mail.port, port, "{tls}");
        }
    }

    #[test]
    fn a_wrong_mail_channel_is_refused_with_its_field() {
        for (rest, expected) in [
            ("host = 'https://a'\nto = ['a@b.c']", "mail.host"),
            ("host = 'a.example'\ntls = 'none'\nto = ['a@b.c']", "mail.tls"),
            ("host = 'a.example'\nto = []", "mail.to"),
            ("host = 'a.example'\nto = ['nobody']", "mail.to"),
            ("host = 'a.example'\nto = ['a@b.c']\nusername = 'a'", "mail: set both"),
        ] {
            let error = read(rest).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
        assert!(read("host = 'a'\nto = ['a@b.c']\npassword = 'a'").is_err(), "a password is in a file");
    }

    #[test]
    fn a_mail_that_is_sent_again_has_the_same_id() {
        let mail = read("host = 'a.example'\nto = ['a@b.c', 'Team <d@e.f>']").unwrap();
        let text =
            Text { title: "告警：a/b：出现死信".to_owned(), lines: vec!["Bcc: evil@e.f".to_owned()] };
        let written = |at| {
            let message = mail.message("notification-7", &text, at).unwrap();
            String::from_utf8(message.formatted()).unwrap()
        };
        let (first, again) = (written(NOW), written(NOW + Duration::from_secs(60)));
        for line in [
            "Message-ID: <notification-7@example.com>\r\n",
            "To: a@b.c, Team <d@e.f>\r\n",
            "Auto-Submitted: auto-generated\r\n",
            "Content-Type: text/plain; charset=utf-8\r\n",
        ] {
            assert!(first.contains(line) && again.contains(line), "{line}{first}");
        }
        let (head, _) = first.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("Subject: =?utf-8?") && !head.contains("Bcc"), "{head}");
    }
}
