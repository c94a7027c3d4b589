//! Progress of long operations: on stderr, and only on a terminal.

use std::sync::Arc;

use indicatif::{ProgressBar, ProgressStyle};

/// For a known number of items.
pub(crate) fn bar(what: &'static str, total: usize) -> Arc<ProgressBar> {
    let bar = ProgressBar::new(u64::try_from(total).unwrap_or(u64::MAX));
    styled(&bar, "{msg:>18} {wide_bar} {human_pos}/{human_len} {eta}");
    bar.set_message(what);
    Arc::new(bar)
}

/// For bytes of unknown number.
pub(crate) fn bytes(what: &'static str) -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    styled(&bar, "{msg:>18} {spinner} {bytes} {bytes_per_sec}");
    bar.set_message(what);
    bar
}

/// For a sentence that changes.
pub(crate) fn line() -> ProgressBar {
    let line = ProgressBar::new_spinner();
    styled(&line, "{spinner} {msg}");
    line
}

fn styled(bar: &ProgressBar, template: &str) {
    // With an invalid template the default bar is good enough.
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
}
