//! What was acknowledged is there after a kill, and what was done does not come back.

use punctual_tests::Scene;

use super::{redis_cli, start};

#[test]
fn jobs_survive_a_kill_and_those_that_were_done_stay_done() {
    let scene = Scene::new();
    let mut node = start(&scene);
    let add = |node: &_, body: &str| redis_cli(node, &["ADDJOB", "mail", body, "0"]);
    let (done, waits) = (add(&node, "done"), add(&node, "waits"));
    let once = redis_cli(&node, &["ADDJOB", "once", "once", "0", "RETRY", "0"]);
    assert!(redis_cli(&node, &["GETJOB", "FROM", "mail"]).ends_with("done"));
    assert_eq!(redis_cli(&node, &["ACKJOB", &done]), "1");
    assert!(redis_cli(&node, &["GETJOB", "FROM", "once"]).contains(&once));
    node.kill();
    node.start();
    assert_eq!(redis_cli(&node, &["GETJOB", "COUNT", "10", "FROM", "mail"]), format!("mail\n{waits}\nwaits"));
    assert_eq!(redis_cli(&node, &["GETJOB", "NOHANG", "FROM", "once"]), "", "at most once");
    assert_eq!(redis_cli(&node, &["SHOW", &done]), "");
}
