//! Any text either is a file of jobs or is refused with a message that can be shown; and a job that was read, written
//! and read again is the same job, in YAML and in JSON.
#![no_main]

use libfuzzer_sys::fuzz_target;
use punctual_core::name::Namespace;
use punctual_wire::job_file::{self, Draft, JobFile};
use punctual_wire::tree::Node;

fuzz_target!(|input: &[u8]| {
    // As the body of a request.
    if let Ok(node) = Node::from_json(input) {
        let name = "job".parse().expect("a name");
        if let Ok(draft) = job_file::read_for(node, &Namespace::default(), &name) {
            check(&draft);
        }
    }
    // As a file.
    let Ok(text) = std::str::from_utf8(input) else { return };
    match job_file::read_all(text, &Namespace::default()) {
        Ok(drafts) => drafts.iter().for_each(check),
        Err(errors) => {
            for error in errors {
                let shown = error.to_string();
                assert!(!shown.is_empty() && !shown.contains(char::is_control), "{shown:?}");
            }
        }
    }
});

fn check(draft: &Draft) {
    let form = JobFile::of(&draft.namespace, &draft.name, &draft.definition);
    let yaml = punctual_wire::yaml::to_string(&form).expect("a form can be written");
    let again = job_file::read_all(&yaml, &Namespace::default());
    assert_eq!(again.as_deref(), Ok(std::slice::from_ref(draft)), "written as YAML:\n{yaml}");
    let json = serde_json::to_vec(&form).expect("a form can be written");
    let node = Node::from_json(&json).expect("what we wrote is JSON");
    let again = job_file::read_for(node, &draft.namespace, &draft.name);
    assert_eq!(again.as_ref(), Ok(draft), "written as JSON");
}
