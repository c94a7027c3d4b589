//! Signatures, so that a receiver knows who sent a message.
//!
//! A webhook is signed as [Standard Webhooks](https://www.standardwebhooks.com) says: HMAC-SHA256 over the id, the time in
//! seconds and the body. During a rotation it has a signature for each of two secrets.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use punctual_core::Timestamp;
use sha2::Sha256;

const PREFIX: &str = "whsec_";
/// The secrets of one channel: the old one and the new one.
const SECRETS_MAX: usize = 2;

fn hmac(key: &[u8], text: &str) -> String {
    // A key of any length is allowed.
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(text.as_bytes());
    BASE64_STANDARD.encode(mac.finalize().into_bytes())
}

pub(super) fn seconds(at: Timestamp) -> i64 {
    at.as_millis().div_euclid(1000)
}

/// The headers of a webhook. Without a secret it has an id and a time.
pub(super) fn webhook(
    secrets: &[String],
    id: &str,
    now: Timestamp,
    body: &str,
) -> Result<Vec<(&'static str, String)>, String> {
    if secrets.len() > SECRETS_MAX {
        return Err(format!("its secret file has {} lines; at most {SECRETS_MAX} secrets", secrets.len()));
    }
    let time = seconds(now);
    let mut headers = vec![("webhook-id", id.to_owned()), ("webhook-timestamp", time.to_string())];
    let signed = format!("{id}.{time}.{body}");
    let signatures = secrets.iter().map(|secret| {
        let key = BASE64_STANDARD.decode(secret.strip_prefix(PREFIX).unwrap_or(secret));
        let key = key.map_err(|_| format!("its secret is not base64 after `{PREFIX}`"))?;
        Ok(format!("v1,{}", hmac(&key, &signed)))
    });
    let signatures = signatures.collect::<Result<Vec<_>, String>>()?;
    if !signatures.is_empty() {
        headers.push(("webhook-signature", signatures.join(" ")));
    }
    Ok(headers)
}

/// The signature of DingTalk: the secret is the key, the time in milliseconds and the secret are the text.
pub(super) fn dingtalk(secret: &str, now: Timestamp) -> String {
    hmac(secret.as_bytes(), &format!("{}\n{secret}", now.as_millis()))
}

/// The signature of Feishu: the time in seconds and the secret are the key, the text is empty.
pub(super) fn feishu(secret: &str, now: Timestamp) -> String {
    hmac(format!("{}\n{secret}", seconds(now)).as_bytes(), "")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const NOW: Timestamp = Timestamp::from_millis(1_614_265_330_123);

    fn signature(secrets: &[&str], id: &str, now: Timestamp, body: &str) -> Option<String> {
        let secrets: Vec<String> = secrets.iter().map(|secret| (*secret).to_owned()).collect();
        let headers = webhook(&secrets, id, now, body).unwrap();
        headers.into_iter().find(|(name, _)| *name == "webhook-signature").map(|(_, value)| value)
    }

    /// The vector of the Standard Webhooks specification.
    #[test]
    fn a_webhook_is_signed_as_the_standard_says() {
        let (id, body) = ("msg_p5jXN8AQM9LWM0D4loKWxJek", r#"{"test": 2432232314}"#);
        let expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert_eq!(signature(&[SECRET], id, NOW, body).as_deref(), Some(expected));
        let other = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
        let both = signature(&[SECRET, other], id, NOW, body).unwrap();
        let (first, second) = both.split_once(' ').unwrap();
        assert_eq!(first, expected);
        assert_eq!(Some(second), signature(&[other], id, NOW, body).as_deref());
    }

    #[test]
    fn another_id_time_or_body_has_another_signature() {
        let of = |id, now, body| signature(&[SECRET], id, now, body);
        let later = Timestamp::from_millis(NOW.as_millis() + 1000);
        let all = [of("a", NOW, "{}"), of("b", NOW, "{}"), of("a", later, "{}"), of("a", NOW, "{ }")];
        let distinct: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(distinct.len(), all.len());
    }

    #[test]
    fn a_webhook_without_a_secret_is_not_signed() {
        assert_eq!(signature(&[], "a", NOW, "{}"), None);
        let three = vec![SECRET.to_owned(); 3];
        assert!(webhook(&three, "a", NOW, "{}").is_err());
        assert!(webhook(&["whsec_?".to_owned()], "a", NOW, "{}").is_err());
    }

    /// Computed with the examples in Python of both vendors.
    #[test]
    fn chats_are_signed_as_their_vendors_say() {
        let now = Timestamp::from_millis(1_599_360_473_000);
        assert_eq!(dingtalk("this is secret", now), "hXZTWifRGHclNuZSKxoXc//sh51SWfVfRIhcdeKs63I=");
        assert_eq!(feishu("demo", now), "l1N0gAcBjdwBvGm1xMjOF0XSyaLRpR7tuO5dHfhAYc8=");
    }
}
