//! Real database servers for tests: started by the test that needs one, on a free port, in a temporary folder.
//!
//! Making an empty data folder takes a second, so it is made once a version of the server, kept in `target/tmp` and
//! copied. A process has one server of a kind (`shared`), a test a database of its own in it. Nothing is left behind,
//! whatever end the process takes: see `supervised`.

mod supervised;
pub mod mariadb;
pub mod postgres;
pub mod redis;
pub mod etcd;

pub use supervised::Supervised;
