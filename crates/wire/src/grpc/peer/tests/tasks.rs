//! A sample of every kind of task.

use super::*;

pub(super) fn tasks() -> Vec<Task> {
    let env = [("A".to_owned(), "b".to_owned())].into();
    let process = Process {
        command: vec!["./settle".to_owned(), "--day".to_owned()],
        env,
        dir: Some("/srv".to_owned()),
    };
    let http = Http { body: Some(Body::Json(r#"{"a":1}"#.to_owned())), ..Http::get("https://example.com/a") };
    let queue = Enqueue { ttl: Some(Duration::from_millis(1)), ..Enqueue::of("any text".parse().unwrap()) };
    vec![
        Task::Queue(Box::new(queue)),
        Task::Shell("echo hi".to_owned()),
        Task::Process(process),
        Task::Http(Box::new(http)),
        Task::Grpc(Box::new(Grpc::call("orders:50051", "orders.v1.Orders/Settle"))),
    ]
}
