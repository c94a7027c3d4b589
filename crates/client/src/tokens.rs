//! Tokens.

use punctual_core::name::Name;
use punctual_wire::rest::{AddToken, NewToken, Page, Token};
use reqwest::Method;

use crate::{ANSWER_MAX, Client, Result};

impl Client {
    /// Makes a token. Only this answer contains its text.
    pub async fn add_token(&self, token: &AddToken) -> Result<NewToken> {
        self.post(self.request(Method::POST, "/api/v1/tokens"), token).await
    }

    pub async fn tokens(&self, after: Option<&str>, limit: usize) -> Result<Page<Token>> {
        let request = self.request(Method::GET, "/api/v1/tokens").query(&[("limit", limit)]);
        self.get(request.query(&after.map(|after| [("after", after)]))).await
    }

    pub async fn remove_token(&self, name: &Name) -> Result<()> {
        let request = self.request(Method::DELETE, &format!("/api/v1/tokens/{name}"));
        self.send(request.timeout(ANSWER_MAX)).await.map(drop)
    }
}
