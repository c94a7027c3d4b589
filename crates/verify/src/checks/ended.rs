//! P7, at least once: a due run is executed and ends. The caller says by when; an export from a running node contains
//! runs that are still in progress.

use super::Sheet;

pub(super) fn check(sheet: &mut Sheet<'_>) {
    let Some(through) = sheet.options.ended_through else {
        return;
    };
    for run in sheet.history.runs.values().filter(|run| run.due <= through) {
        sheet.saw(1);
        if !run.status.is_terminal() {
            let (due, status) = (run.due, run.status);
            sheet.broken_run(
                run,
                format!("due {due}, it is still {status}: the work was taken and never ended"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::checks::Check;
    use crate::fixture::{Story, at};
    use crate::options::Options;

    #[test]
    fn a_run_that_hangs_is_found_when_all_must_have_ended() {
        let mut story = Story::every_ten_seconds();
        story.start(10);
        story.holds();
        let stuck = |through| {
            let options = Options { ended_through: Some(at(through)), ..Story::options() };
            story.history().check(&options).of(Check::Ended).count()
        };
        assert_eq!((stuck(9), stuck(10)), (0, 1));
    }
}
