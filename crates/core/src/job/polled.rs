//! Jobs whose work is done by a service, which a worker polls until the work has ended.

use super::{Definition, Strategy};
use crate::task::Task;

impl Definition {
    /// The origin that its workers poll. Runs that leave the choice of their worker open go to one worker for each
    /// origin, so that one connection is enough.
    pub fn polled_origin(&self) -> Option<String> {
        let is_open = self.route.strategy == Strategy::LeastLoaded && !self.route.splits();
        match &self.task {
            Task::Http(http) if http.accept.is_some() && is_open => Some(http.origin()),
            Task::Grpc(grpc) if grpc.accept && is_open => Some(grpc.origin()),
            _ => None,
        }
    }

    /// Whether the work is done by a service, and goes on without its worker.
    pub fn is_accepted_elsewhere(&self) -> bool {
        match &self.task {
            Task::Http(http) => http.accept.is_some(),
            Task::Grpc(grpc) => grpc.accept,
            Task::Noop
            | Task::Shell(_)
            | Task::Process(_)
            | Task::Function(_)
            | Task::Queue(_)
            | Task::Workflow(_)
            | Task::Ping(_)
            | Task::Job(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::job::Route;
    use crate::task::{Accept, Grpc, GrpcTls, Http, Method};

    #[test]
    fn an_accepting_job_without_a_route_goes_by_its_origin() {
        let job = |http| Definition::of(Task::Http(Box::new(http)));
        let http = Http::get("http://example.com/a");
        let accept = Some(Accept { poll: Duration::from_secs(5), all: None });
        let accepting = job(Http { method: Method::Post, accept, ..http.clone() });
        assert_eq!(accepting.polled_origin().as_deref(), Some("http://example.com"));
        let route = Route { strategy: Strategy::First, ..Route::default() };
        assert_eq!(Definition { route, ..accepting }.polled_origin(), None);
        assert_eq!(job(http).polled_origin(), None);
    }

    #[test]
    fn work_for_an_executor_goes_by_its_address() {
        let job = |grpc| Definition::of(Task::Grpc(Box::new(grpc)));
        let work = job(Grpc::work("Example.com:50051"));
        assert_eq!(work.polled_origin().as_deref(), Some("grpc://example.com:50051"));
        assert!(work.is_accepted_elsewhere());
        let secured = Grpc { tls: Some(GrpcTls::default()), ..Grpc::work("example.com:50051") };
        assert_eq!(job(secured).polled_origin().as_deref(), Some("grpcs://example.com:50051"));
        let call = job(Grpc::call("example.com:50051", "a.B/C"));
        assert_eq!((call.polled_origin(), call.is_accepted_elsewhere()), (None, false));
    }
}
