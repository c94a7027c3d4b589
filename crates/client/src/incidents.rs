//! Incidents, and the channels that notifications go to.

use punctual_core::ids::IncidentId;
use punctual_core::name::{Name, Namespace};
use punctual_wire::rest::{Channel, Comment, Incident, Page, SilenceIncident};
use reqwest::Method;
use serde::Serialize;

use crate::{ANSWER_MAX, Client, Result};

/// Which incidents to list.
#[derive(Debug, Clone, Default, Serialize)]
pub struct IncidentQuery {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<Name>,
    /// Only those that are open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

impl Client {
    pub async fn incidents(&self, namespace: &Namespace, query: &IncidentQuery) -> Result<Page<Incident>> {
        self.get(self.in_namespace(Method::GET, namespace, "/incidents").query(query)).await
    }

    pub async fn incident(&self, namespace: &Namespace, id: IncidentId) -> Result<Incident> {
        self.get(self.in_namespace(Method::GET, namespace, &format!("/incidents/{id}"))).await
    }

    pub async fn acknowledge_incident(
        &self,
        namespace: &Namespace,
        id: IncidentId,
        comment: &Comment,
    ) -> Result<Incident> {
        let path = format!("/incidents/{id}/acknowledge");
        self.post(self.in_namespace(Method::POST, namespace, &path), comment).await
    }

    pub async fn silence_incident(
        &self,
        namespace: &Namespace,
        id: IncidentId,
        silence: &SilenceIncident,
    ) -> Result<Incident> {
        let path = format!("/incidents/{id}/silence");
        self.post(self.in_namespace(Method::POST, namespace, &path), silence).await
    }

    pub async fn channels(&self) -> Result<Page<Channel>> {
        self.get(self.request(Method::GET, "/api/v1/channels")).await
    }

    /// Sends a test notification through a channel.
    pub async fn test_channel(&self, channel: &Name) -> Result<()> {
        let request = self.request(Method::POST, &format!("/api/v1/channels/{channel}/test"));
        self.send(request.timeout(ANSWER_MAX)).await.map(drop)
    }
}
