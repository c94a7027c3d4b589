//! Progress of what takes long: on stderr, and only where a person watches.

use std::sync::Arc;

use indicatif::{ProgressBar, ProgressStyle};

/// Of a known number of things.
pub(crate) fn bar(what: &'static str, total: usize) -> Arc<ProgressBar> {
    let bar = ProgressBar::new(u64::try_from(total).unwrap_or(u64::MAX));
    styled(&bar, "{msg:>18} {wide_bar} {human_pos}/{human_len} {eta}");
    bar.set_message(what);
    Arc::new(bar)
}

/// Of bytes that come until they end.
pub(crate) fn bytes(what: &'static str) -> ProgressBar {
    let bar = ProgressBar::new_spinner();
    styled(&bar, "{msg:>18} {spinner} {bytes} {bytes_per_sec}");
    bar.set_message(what);
    bar
}

fn styled(bar: &ProgressBar, template: &str) {
    // A template that cannot be read leaves the plain bar, which is good enough.
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
}
