//! A history in which nothing happened breaks no promise, but proves none either.

use super::Sheet;
use crate::report::About;

pub(super) fn check(sheet: &mut Sheet<'_>) {
    let counted = sheet.history.counted();
    sheet.saw(counted.runs);
    if sheet.options.may_be_empty {
        return;
    }
    let missing = match (counted.runs, counted.fires, counted.starts) {
        (0, ..) => "no runs are in it",
        (_, 0, _) => "no schedule made any of its runs",
        (_, _, 0) => "none of its runs ever started",
        _ => return,
    };
    sheet.broken(About::History, format!("{missing}: nothing was proven"));
}

#[cfg(test)]
mod tests {
    use punctual_core::run::Trigger;

    use crate::checks::Check;
    use crate::fixture::Story;
    use crate::history::History;
    use crate::options::Options;

    #[test]
    fn an_empty_history_proves_nothing() {
        let report = History::new().check(&Options::default());
        assert_eq!(report.of(Check::NotVacuous).count(), 1);
        let asked = Options { may_be_empty: true, ..Options::default() };
        assert!(History::new().check(&asked).is_ok());
    }

    #[test]
    fn a_history_without_fires_or_starts_proves_nothing() {
        let mut story = Story::every_ten_seconds();
        story.run_of(Trigger::Manual, 3);
        story.breaks(Check::NotVacuous, "no schedule made any");
        let mut story = Story::every_ten_seconds();
        story.planned(10);
        story.breaks(Check::NotVacuous, "none of its runs ever started");
    }
}
