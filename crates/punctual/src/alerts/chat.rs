//! The messages of chats, and how their servers say that they took one. Each is plain text: an error of a job must not
//! become a link or a mention.

use std::borrow::Cow;

use punctual_core::Timestamp;
use punctual_worker::Reply;
use serde_json::{Value, json};

use super::settings::Kind;
use super::text::Text;
use super::{Message, sign};

pub(super) fn message(
    kind: Kind,
    url: String,
    secret: Option<&str>,
    text: &Text,
    now: Timestamp,
) -> Result<Message, String> {
    let content = text.whole();
    let (url, body) = match kind {
        Kind::Webhook => return Err("a webhook is no chat".to_owned()),
        Kind::Slack => (url, json!({ "text": for_slack(&content) })),
        Kind::Wecom => (url, json!({ "msgtype": "text", "text": { "content": content } })),
        Kind::Dingtalk => (
            secret.map_or(url.clone(), |secret| signed(&url, secret, now)),
            json!({ "msgtype": "text", "text": { "content": content } }),
        ),
        Kind::Feishu => {
            let mut body = json!({ "msg_type": "text", "content": { "text": for_feishu(&content) } });
            if let Some(secret) = secret {
                body["timestamp"] = sign::seconds(now).to_string().into();
                body["sign"] = sign::feishu(secret, now).into();
            }
            (url, body)
        }
    };
    Ok(Message { url, headers: Vec::new(), body: body.to_string() })
}

/// The URL of DingTalk with a signature, in which three characters of base64 are escaped.
fn signed(url: &str, secret: &str, now: Timestamp) -> String {
    let signature = sign::dingtalk(secret, now);
    let signature = signature.replace('+', "%2B").replace('/', "%2F").replace('=', "%3D");
    let joint = if url.contains('?') { '&' } else { '?' };
    format!("{url}{joint}timestamp={}&sign={signature}", now.as_millis())
}

/// Slack reads `<!channel>` and links in angle brackets.
fn for_slack(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Feishu reads `<at user_id="all">`, and has no way to escape it.
fn for_feishu(text: &str) -> Cow<'_, str> {
    if text.contains('<') { text.replace('<', "‹").into() } else { text.into() }
}

/// Whether a receiver took a message. DingTalk, Feishu and WeCom answer 200 with a code in the body.
pub(super) fn check(kind: Kind, reply: &Reply) -> Result<(), String> {
    if !(200..300).contains(&reply.status) {
        return Err(format!("it answered with status {}", reply.status));
    }
    let code = match kind {
        Kind::Webhook | Kind::Slack => return Ok(()),
        Kind::Dingtalk | Kind::Wecom => "errcode",
        Kind::Feishu => "code",
    };
    let answer: Value = serde_json::from_str(&reply.body).unwrap_or_default();
    // Feishu's older form of the answer.
    let given = answer.get(code).or_else(|| answer.get("StatusCode"));
    match given.and_then(Value::as_i64) {
        Some(0) => Ok(()),
        Some(given) => {
            let message = answer.get("errmsg").or_else(|| answer.get("msg")).and_then(Value::as_str);
            let message: String = message.unwrap_or("no message").chars().take(200).collect();
            Err(format!("it answered with {code} {given}: {message}"))
        }
        None => Err(format!("its answer has no `{code}`; is the URL that of a {} robot?", kind.word())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_599_360_473_000);

    fn sent(kind: Kind, secret: Option<&str>, text: &str) -> (String, Value) {
        let text = Text { title: text.to_owned(), lines: vec!["line".to_owned()] };
        let message =
            message(kind, "https://chat.example/hook?token=a".to_owned(), secret, &text, NOW).unwrap();
        (message.url, serde_json::from_str(&message.body).unwrap())
    }

    #[test]
    fn dingtalk_has_its_signature_in_the_url() {
        let (url, body) = sent(Kind::Dingtalk, Some("this is secret"), "failed");
        let expected = "https://chat.example/hook?token=a&timestamp=1599360473000\
             &sign=hXZTWifRGHclNuZSKxoXc%2F%2Fsh51SWfVfRIhcdeKs63I%3D";
        assert_eq!(url, expected);
        assert_eq!(body["text"]["content"], "failed\nline");
        assert!(!sent(Kind::Dingtalk, None, "failed").0.contains("sign="));
    }

    #[test]
    fn feishu_has_its_signature_in_the_body() {
        let (_, body) = sent(Kind::Feishu, Some("demo"), "failed");
        assert_eq!(body["sign"], sign::feishu("demo", NOW));
        assert_eq!(body["timestamp"], "1599360473");
    }

    #[test]
    fn an_error_mentions_nobody() {
        let (_, slack) = sent(Kind::Slack, None, "<!channel> & <https://evil.example|here>");
        assert_eq!(slack["text"], "&lt;!channel&gt; &amp; &lt;https://evil.example|here&gt;\nline");
        let (_, feishu) = sent(Kind::Feishu, None, r#"<at user_id="all"></at>"#);
        assert!(!feishu["content"]["text"].as_str().unwrap().contains('<'));
    }

    #[test]
    fn a_code_in_the_answer_decides() {
        let check = |kind, status, body: &str| check(kind, &Reply { status, body: body.to_owned() });
        assert_eq!(check(Kind::Webhook, 204, ""), Ok(()));
        assert_eq!(check(Kind::Dingtalk, 200, r#"{"errcode":0,"errmsg":"ok"}"#), Ok(()));
        assert_eq!(check(Kind::Feishu, 200, r#"{"code":0,"msg":"success"}"#), Ok(()));
        assert_eq!(check(Kind::Feishu, 200, r#"{"StatusCode":0}"#), Ok(()));
        let refused = check(Kind::Wecom, 200, r#"{"errcode":93000,"errmsg":"invalid webhook url"}"#);
        assert_eq!(refused, Err("it answered with errcode 93000: invalid webhook url".to_owned()));
        assert!(check(Kind::Slack, 404, "no_service").is_err());
        assert!(check(Kind::Dingtalk, 200, "<html>").is_err());
    }
}
