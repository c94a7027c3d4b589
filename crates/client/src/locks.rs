//! Locks: requests about them, and a lock that is renewed in the background.

use std::time::Duration;

use punctual_core::ids::Fence;
use punctual_core::limits::LOCK_WAIT_MAX;
use punctual_core::name::{Name, Namespace};
use punctual_wire::Text;
use punctual_wire::rest::{AcquireLock, Code, HeldFence, Lock, Page};
use punctual_wire::text::Span;
use reqwest::{Method, RequestBuilder};

use crate::hold::{HeldLock, Hold, Holds, hold};
use crate::{Client, Error, Result, keyed};

/// How long a server may take to answer, besides a wait: then the next one is asked.
const ANSWER_MAX: Duration = Duration::from_secs(5);

impl Client {
    /// The locks of a namespace that are held, ordered by name.
    pub async fn locks(
        &self,
        namespace: &Namespace,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Lock>> {
        let request = self.in_namespace(Method::GET, namespace, "/locks").query(&[("limit", limit)]);
        self.get(request.query(&after.map(|after| [("after", after)]))).await
    }

    /// A lock that is held, with those who wait for it.
    pub async fn show_lock(&self, namespace: &Namespace, name: &Name) -> Result<Lock> {
        self.get(self.of_lock(Method::GET, namespace, name, "")).await
    }

    /// Acquires a lock by one request. A repetition with the same key gets the same lock.
    pub async fn acquire_lock(
        &self,
        namespace: &Namespace,
        name: &Name,
        acquire: &AcquireLock,
        key: Option<&str>,
    ) -> Result<Lock> {
        let request = keyed(self.of_lock(Method::POST, namespace, name, "").json(acquire), key);
        let response = self.send(request.timeout(ANSWER_MAX + acquire.wait())).await?;
        self.read(response).await
    }

    /// Holds a lock for another `ttl` from now.
    pub async fn renew_lock(&self, namespace: &Namespace, name: &Name, fence: Fence) -> Result<Lock> {
        let response = self.send(self.of_held(namespace, name, "/renew", fence)).await?;
        self.read(response).await
    }

    pub async fn release_lock(&self, namespace: &Namespace, name: &Name, fence: Fence) -> Result<()> {
        self.send(self.of_held(namespace, name, "/release", fence)).await.map(drop)
    }

    /// Acquires a lock, and holds it until the result is dropped: it is renewed in the background.
    ///
    /// `wait` is how long to wait while another owner holds it. It can be hours: the caller keeps its turn.
    pub async fn lock(&self, namespace: &Namespace, name: &Name, how: Hold) -> Result<HeldLock> {
        // Without randomness the number of the process is the best that there is: owners differ by it, too.
        let random = getrandom::u64().unwrap_or_else(|_| std::process::id().into());
        let lock = Locked {
            client: self.clone(),
            namespace: namespace.clone(),
            name: name.clone(),
            how,
            key: format!("{random:016x}"),
        };
        hold(lock.how.ttl, lock.how.wait, lock).await
    }

    fn of_lock(&self, method: Method, namespace: &Namespace, name: &Name, path: &str) -> RequestBuilder {
        self.in_namespace(method, namespace, &format!("/locks/{name}{path}"))
    }

    /// Marked as repeatable, so that the next server is asked if one does not answer.
    fn of_held(&self, namespace: &Namespace, name: &Name, path: &str, fence: Fence) -> RequestBuilder {
        let request =
            self.of_lock(Method::POST, namespace, name, path).json(&HeldFence { fence: Text(fence) });
        keyed(request, Some(path)).timeout(ANSWER_MAX)
    }
}

/// A lock that this client holds or wants.
struct Locked {
    client: Client,
    namespace: Namespace,
    name: Name,
    how: Hold,
    key: String,
}

impl Holds for Locked {
    type Error = Error;

    async fn acquire(&self, wait: Duration) -> Result<Fence> {
        let wait = Some(Span(wait.min(LOCK_WAIT_MAX)));
        let acquire = AcquireLock { ttl: Span(self.how.ttl), wait, owner: self.how.owner.clone() };
        let lock = self.client.acquire_lock(&self.namespace, &self.name, &acquire, Some(&self.key)).await?;
        Ok(lock.fence.0)
    }

    async fn renew(&self, fence: Fence) -> Result<()> {
        self.client.renew_lock(&self.namespace, &self.name, fence).await.map(drop)
    }

    async fn release(&self, fence: Fence) -> Result<()> {
        self.client.release_lock(&self.namespace, &self.name, fence).await
    }

    fn is_held(error: &Error) -> bool {
        error.problem().is_some_and(|problem| problem.code == Code::Locked)
    }

    fn may_pass(error: &Error) -> bool {
        match error {
            Error::Problem(problem) => problem.code.retry_after().is_some(),
            Error::Unreachable { .. } | Error::BrokenOff { .. } => true,
            Error::Strange { .. } => false,
        }
    }
}
