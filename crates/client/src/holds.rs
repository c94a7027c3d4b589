//! Holds of a namespace, or (`None`) of everything.

use punctual_core::name::Namespace;
use punctual_wire::rest::{Hold, Page, PutHold};
use reqwest::{Method, RequestBuilder};

use crate::{Client, Result};

impl Client {
    pub async fn hold(&self, namespace: Option<&Namespace>, order: &PutHold) -> Result<Hold> {
        self.get(self.at_hold(Method::PUT, namespace).json(order)).await
    }

    pub async fn release(&self, namespace: Option<&Namespace>) -> Result<()> {
        self.send(self.at_hold(Method::DELETE, namespace)).await.map(drop)
    }

    /// The holds that cover the namespace, or all holds.
    pub async fn holds(&self, namespace: Option<&Namespace>) -> Result<Page<Hold>> {
        self.get(self.at_hold(Method::GET, namespace)).await
    }

    fn at_hold(&self, method: Method, namespace: Option<&Namespace>) -> RequestBuilder {
        match namespace {
            Some(namespace) => self.in_namespace(method, namespace, "/hold"),
            None => self.request(method, "/api/v1/hold"),
        }
    }
}
