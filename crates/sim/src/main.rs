//! `make sim SEED=7`, or `make sim SEEDS=10000`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |flag: &str| {
        let at = arguments.iter().position(|argument| argument == flag)?;
        arguments.get(at + 1)?.parse::<u64>().ok()
    };
    let trace = arguments.iter().any(|argument| argument == "--trace");
    let (first, count) = match (number("--seed"), number("--seeds")) {
        (Some(seed), None) => (seed, 1),
        (first, Some(count)) => (first.unwrap_or(1), count),
        (None, None) => {
            eprintln!("usage: punctual-sim --seed N [--trace] | --seeds COUNT [--seed FIRST]");
            return ExitCode::from(2);
        }
    };
    for seed in first..first + count {
        match punctual_sim::run(seed, trace) {
            Ok(seen) if count == 1 => println!("seed {seed}: all promises held\n{seen:#?}"),
            Ok(_) => {}
            Err(failure) => {
                println!("seed {}: broken at {}\n{}", failure.seed, failure.at, failure.what);
                println!("see it again: make sim SEED={}", failure.seed);
                return ExitCode::FAILURE;
            }
        }
    }
    println!("{count} seeds: all promises held");
    ExitCode::SUCCESS
}
