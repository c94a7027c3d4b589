//! What the system reports of this process, for INFO; zero where it reports nothing.

use std::fs;

/// Linux reports CPU times in hundredths of a second.
const TICKS_PER_SECOND: f64 = 100.0;

/// The resident memory in bytes.
pub(super) fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// CPU seconds, in the system and in this process.
pub(super) fn processor() -> (f64, f64) {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The program name, in brackets, may contain spaces.
    let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
    let field =
        |number: usize| after.split_whitespace().nth(number).and_then(|text| text.parse::<f64>().ok());
    let seconds = |number: usize| field(number).unwrap_or(0.0) / TICKS_PER_SECOND;
    (seconds(12), seconds(11))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_memory_and_has_taken_time() {
        assert!(resident() > 1024 * 1024);
        let (system, user) = processor();
        assert!(system >= 0.0 && user >= 0.0 && (system + user).is_finite());
    }
}
