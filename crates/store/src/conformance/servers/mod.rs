//! Real database servers for tests: started by the test that needs one, on a free port, in a temporary folder.
//!
//! Making an empty data folder takes a second, so it is made once for each version of the server, kept in `target/tmp`
//! and copied. A process has one server of each kind (`shared`), and each test has its own database in it. Servers and
//! folders are removed however the process ends: see `supervised`.

mod supervised;
pub mod mariadb;
pub mod postgres;
pub mod redis;
pub mod etcd;

pub use supervised::Supervised;
