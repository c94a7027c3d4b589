//! REPLICATE is accepted up to the number of nodes that live (R131).

use punctual_tests::Scene;
use punctual_tests::wait::{self, SOON};
use redis::RedisResult;

use super::{Job, ask, say, start};

/// What the server says if it does not do it.
fn refusal(added: RedisResult<String>) -> String {
    added.map_or_else(|error| error.code().unwrap_or_default().to_owned(), |id| format!("added {id}"))
}

#[test]
fn a_message_that_wants_more_copies_than_nodes_is_refused() {
    let scene = Scene::new();
    let mut cluster = start(&scene);
    let mut connection = cluster.queues(0);
    wait::until_so("all three have seen each other", SOON, || {
        ask::<String>(&mut connection, "ADDJOB seen x 0 REPLICATE 3").is_ok()
    });
    let mut promised = Vec::new();
    for number in 0..12 {
        let options = ["", " REPLICATE 3", " REPLICATE 2 ASYNC", " ASYNC"][number % 4];
        promised.push(format!("before-{number}"));
        say::<String>(&mut connection, &format!("ADDJOB q-{} before-{number} 5000{options}", number % 6));
    }
    assert_eq!(refusal(ask(&mut connection, "ADDJOB q-0 x 0 REPLICATE 4")), "NOREPL");
    assert_eq!(refusal(ask(&mut connection, "ADDJOB q-0 x 0 REPLICATE 4 ASYNC")), "NOREPL");
    // Of a message that is delivered once at most there is one copy, and the default is three.
    assert_eq!(refusal(ask(&mut connection, "ADDJOB q-0 x 0 RETRY 0")), "ERR");
    say::<String>(&mut connection, "ADDJOB once x 0 RETRY 0 REPLICATE 1");

    cluster.nodes[1].kill();
    cluster.nodes[2].kill();
    wait::until_so("it is noticed that two are gone", SOON, || {
        refusal(ask(&mut connection, "ADDJOB q-0 late 0 REPLICATE 3")) == "NOREPL"
    });
    wait::until_so("and that both are", SOON, || {
        refusal(ask(&mut connection, "ADDJOB q-0 late 0 REPLICATE 2")) == "NOREPL"
    });
    // As many as there are is what is asked for if nobody says how many.
    promised.push("after".to_owned());
    say::<String>(&mut connection, "ADDJOB q-0 after 5000");
    say::<String>(&mut connection, "ADDJOB q-0 late 5000 REPLICATE 1 ASYNC");
    let mut came = Vec::new();
    wait::until_so("all that was promised comes from the one that is left", SOON, || {
        let taken: Option<Vec<Job>> =
            say(&mut connection, "GETJOB TIMEOUT 1000 COUNT 100 FROM q-0 q-1 q-2 q-3 q-4 q-5");
        came.extend(taken.unwrap_or_default().into_iter().map(|job| job.2));
        promised.iter().all(|body| came.contains(body))
    });
    came.retain(|body| body != "late");
    came.sort();
    promised.sort();
    assert_eq!(came, promised, "each of them once");
}
