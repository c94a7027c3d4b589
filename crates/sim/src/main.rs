//! `make sim SEED=7`, or `make sim SEEDS=10000`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |flag: &str| {
        let at = arguments.iter().position(|argument| argument == flag)?;
        arguments.get(at + 1)?.parse::<u64>().ok()
    };
    let is_set = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let settings = punctual_sim::Settings {
        trace: is_set("--trace"),
        without_queues: is_set("--without-queues"),
        planted: None,
    };
    let (first, count) = match (number("--seed"), number("--seeds")) {
        (Some(seed), None) => (seed, 1),
        (first, Some(count)) => (first.unwrap_or(1), count),
        (None, None) => {
            eprintln!(
                "usage: punctual-sim --seed N [--trace] | --seeds COUNT [--seed FIRST]; [--without-queues] [--keep-going]"
            );
            return ExitCode::from(2);
        }
    };
    let mut broken = Vec::new();
    for seed in first..first + count {
        match punctual_sim::run(seed, settings) {
            Ok(seen) if count == 1 => println!("seed {seed}: all promises held\n{seen:#?}"),
            Ok(_) => {}
            Err(failure) => {
                println!("seed {}: broken at {}\n{}", failure.seed, failure.at, failure.what);
                println!("replay it: make sim SEED={}", failure.seed);
                if !is_set("--keep-going") {
                    return ExitCode::FAILURE;
                }
                broken.push(seed);
            }
        }
    }
    if broken.is_empty() {
        println!("{count} seeds: all promises held");
        ExitCode::SUCCESS
    } else {
        println!("{count} seeds: broken in {broken:?}");
        ExitCode::FAILURE
    }
}
