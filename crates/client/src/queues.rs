//! Queues and their messages.
//!
//! Queue names may contain any character and ids may contain a slash, so both are percent-encoded.

use std::fmt::Write;

use punctual_core::name::Namespace;
use punctual_wire::rest::{
    ActOnMessages, ActedOnMessages, AddMessage, AddMessages, Added, AddedMessages, Flushed, Message,
    Messages, Page, Postponed, Queue, QueueSettings, Take, Way,
};
use reqwest::Method;

use crate::{ANSWER_MAX, Client, Result};

impl Client {
    /// Queues ordered by name.
    pub async fn queues(
        &self,
        namespace: &Namespace,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Queue>> {
        let request = self.in_namespace(Method::GET, namespace, "/queues").query(&[("limit", limit)]);
        self.get(request.query(&after.map(|after| [("after", after)]))).await
    }

    pub async fn queue(&self, namespace: &Namespace, queue: &str) -> Result<Queue> {
        self.get(self.in_namespace(Method::GET, namespace, &path(queue, ""))).await
    }

    /// Adds a message. If a message with the same key exists, it is the answer, and nothing is added.
    pub async fn add_message(
        &self,
        namespace: &Namespace,
        queue: &str,
        message: &AddMessage,
    ) -> Result<Added> {
        self.post(self.in_namespace(Method::POST, namespace, &path(queue, "/messages")), message).await
    }

    /// Adds several messages, each independently.
    pub async fn add_messages(
        &self,
        namespace: &Namespace,
        queue: &str,
        messages: Vec<AddMessage>,
    ) -> Result<AddedMessages> {
        let body = AddMessages { messages };
        self.post(self.in_namespace(Method::POST, namespace, &path(queue, "/batch")), &body).await
    }

    /// Takes messages from a queue. With `wait`, answers when a message arrives, or with none when the time is over.
    pub async fn take_messages(&self, namespace: &Namespace, queue: &str, take: Take) -> Result<Messages> {
        let request = self.in_namespace(Method::POST, namespace, &path(queue, "/take")).json(&take);
        let wait = take.wait.map(|wait| wait.0).unwrap_or_default();
        let response = self.send(request.timeout(ANSWER_MAX + wait)).await?;
        self.read(response).await
    }

    /// The first messages of the queue, or the last, without taking them.
    pub async fn peek_messages(
        &self,
        namespace: &Namespace,
        queue: &str,
        count: u32,
        newest: bool,
    ) -> Result<Messages> {
        let request = self.in_namespace(Method::GET, namespace, &path(queue, "/peek"));
        self.get(request.query(&[("count", count)]).query(&[("newest", newest)])).await
    }

    /// Replaces the settings of the queue.
    pub async fn set_queue(
        &self,
        namespace: &Namespace,
        queue: &str,
        settings: &QueueSettings,
    ) -> Result<Queue> {
        self.post(self.in_namespace(Method::PUT, namespace, &path(queue, "")), settings).await
    }

    pub async fn pause_queue(&self, namespace: &Namespace, queue: &str, way: Way) -> Result<Queue> {
        self.post(self.in_namespace(Method::POST, namespace, &path(queue, "/pause")), &way).await
    }

    pub async fn resume_queue(&self, namespace: &Namespace, queue: &str, way: Way) -> Result<Queue> {
        self.post(self.in_namespace(Method::POST, namespace, &path(queue, "/resume")), &way).await
    }

    /// Deletes queued messages; the answer says whether more are left.
    pub async fn flush_queue(&self, namespace: &Namespace, queue: &str) -> Result<Flushed> {
        self.get(self.in_namespace(Method::POST, namespace, &path(queue, "/flush"))).await
    }

    pub async fn message(&self, namespace: &Namespace, id: &str) -> Result<Message> {
        self.get(self.in_namespace(Method::GET, namespace, &format!("/messages/{}", encoded(id)))).await
    }

    pub async fn act_on_messages(
        &self,
        namespace: &Namespace,
        act: &ActOnMessages,
    ) -> Result<ActedOnMessages> {
        self.post(self.in_namespace(Method::POST, namespace, "/messages"), act).await
    }

    /// A consumer needs more time: the message is redelivered only after another retry time.
    pub async fn working(&self, namespace: &Namespace, id: &str) -> Result<Postponed> {
        let path = format!("/messages/{}/working", encoded(id));
        self.get(self.in_namespace(Method::POST, namespace, &path)).await
    }
}

fn path(queue: &str, rest: &str) -> String {
    format!("/queues/{}{rest}", encoded(queue))
}

/// Percent-encodes a path segment. Dots are encoded too, because `.` and `..` have a meaning in paths.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' {
            encoded.push(char::from(byte));
        } else {
            // Writing into a string cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_queue_is_called_it_is_one_segment() {
        assert_eq!(path("mail", "/take"), "/queues/mail/take");
        assert_eq!(path("a/b c?#", ""), "/queues/a%2Fb%20c%3F%23");
        assert_eq!(path("..", ""), "/queues/%2E%2E");
        assert_eq!(encoded("D-0a1b2c3d-AB+/-05a1"), "D-0a1b2c3d-AB%2B%2F-05a1");
        assert_eq!(encoded("汉"), "%E6%B1%89");
    }
}
