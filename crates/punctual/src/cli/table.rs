//! Tables that fit the terminal.
//!
//! A row is one line and never wraps. If space is short, first the last column is cut, then very wide
//! columns, then the least important columns are left out, and at last every column is cut. Widths are
//! counted in terminal cells, so that Chinese text lines up too. Output for a program is not cut.

use comfy_table::{ColumnConstraint, ContentArrangement, Row, Width, presets};

/// Cells between two columns.
const GAP: u16 = 2;
/// The least width of the last column before another column is left out.
const LAST_MIN: u16 = 16;
/// Wider columns are cut to this before a column is left out: a time with its day still fits.
const WIDE: u16 = 32;
/// The least width of a column when every column is cut.
const LEAST: u16 = 8;
/// One wide character; a narrower column is left out.
const MIN: u16 = 2;

#[derive(Debug)]
pub(crate) struct Table {
    titles: Vec<String>,
    /// Columns that may be left out, least important first.
    spare: Vec<usize>,
    rows: comfy_table::Table,
    /// `None` means no limit.
    width: Option<u16>,
}

impl Table {
    pub(super) fn new(titles: &[&str], width: Option<u16>, colour: bool) -> Table {
        let mut rows = comfy_table::Table::new();
        rows.load_style(presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Disabled)
            .force_no_tty();
        if colour {
            rows.enforce_styling();
        }
        let mut header = Row::from(titles);
        header.max_height(1);
        rows.set_header(header);
        for column in rows.column_iter_mut() {
            column.set_padding((0, GAP));
        }
        // By default, columns further to the right matter less.
        let spare = (2..titles.len()).rev().collect();
        Table { titles: titles.iter().map(ToString::to_string).collect(), spare, rows, width }
    }

    /// Names the columns that may be left out, least important first.
    #[must_use]
    pub(crate) fn sparing(mut self, titles: &[&str]) -> Table {
        let place = |title: &&str| self.titles.iter().position(|known| known == title);
        self.spare = titles.iter().filter_map(place).collect();
        self
    }

    pub(crate) fn add_row(&mut self, row: impl Into<Row>) {
        let mut row = row.into();
        row.max_height(1);
        self.rows.add_row(row);
    }

    pub(crate) fn text(mut self) -> String {
        if let Some(width) = self.width {
            self.fit(width);
        }
        let lines: Vec<String> = self.rows.lines().map(|line| line.trim_end().to_owned()).collect();
        lines.join("\n")
    }

    fn fit(&mut self, width: u16) {
        let natural = self.rows.column_max_content_widths();
        let mut shown: Vec<usize> = (0..natural.len()).collect();
        let mut spare = self.spare.iter();
        let widths = loop {
            let wanted: Vec<u16> = shown.iter().map(|column| natural[*column]).collect();
            if let Some(widths) = cut_gently(wanted.clone(), width) {
                break widths;
            }
            if let Some(least) = spare.next() {
                shown.retain(|column| column != least);
                continue;
            }
            match cut(wanted, width) {
                Some(widths) => break widths,
                None => shown.truncate(shown.len() - 1),
            }
        };
        for (index, column) in self.rows.column_iter_mut().enumerate() {
            column.set_constraint(match shown.iter().position(|shown| *shown == index) {
                Some(place) => ColumnConstraint::Absolute(Width::Fixed(widths[place] + GAP)),
                None => ColumnConstraint::Hidden,
            });
        }
    }
}

/// Widths that fit without cutting any column much. `None` means that this is not possible.
fn cut_gently(mut widths: Vec<u16>, room: u16) -> Option<Vec<u16>> {
    let excess = excess_of(&widths, room);
    if let Some(last) = widths.last_mut() {
        *last -= excess.min(last.saturating_sub(LAST_MIN));
    }
    cut_all_but_first(&mut widths, WIDE, room);
    (excess_of(&widths, room) == 0).then_some(widths)
}

/// Widths that fit by cutting every column; the first column, which identifies the row, is cut last.
fn cut(mut widths: Vec<u16>, room: u16) -> Option<Vec<u16>> {
    cut_all_but_first(&mut widths, LEAST, room);
    cut_widest(&mut widths, MIN, room);
    (excess_of(&widths, room) == 0 || widths.len() <= 1).then_some(widths)
}

fn cut_all_but_first(widths: &mut [u16], min: u16, room: u16) {
    if let Some((first, rest)) = widths.split_first_mut() {
        cut_widest(rest, min, room.saturating_sub(first.saturating_add(GAP)));
    }
}

/// Takes cells from the widest column, one at a time.
fn cut_widest(widths: &mut [u16], min: u16, room: u16) {
    while excess_of(widths, room) > 0 {
        match widths.iter_mut().max_by_key(|width| **width).filter(|width| **width > min) {
            Some(widest) => *widest -= 1,
            None => return,
        }
    }
}

fn excess_of(widths: &[u16], room: u16) -> u16 {
    let gaps = u32::from(GAP) * u32::try_from(widths.len().saturating_sub(1)).unwrap_or(u32::MAX);
    let needed = widths.iter().fold(gaps, |sum, width| sum.saturating_add(u32::from(*width)));
    u16::try_from(needed.saturating_sub(u32::from(room))).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TITLES: [&str; 6] = ["ID", "JOB", "STATE", "DUE (UTC)", "ATTEMPT", "RESULT"];

    fn table(width: Option<u16>) -> Table {
        let mut table = Table::new(&TITLES, width, false).sparing(&["ATTEMPT", "RESULT", "DUE (UTC)"]);
        let said = "connection refused by the ledger of the east, for the third time today";
        table.add_row(["4683711365120", "nightly", "failed", "08:00:00 (3m ago)", "3", said]);
        table.add_row(["4683711365121", "夜间结算", "running", "08:01:00 (2m ago)", "1", "-"]);
        table
    }

    #[track_caller]
    fn check(width: Option<u16>, lines: &[&str]) {
        assert_eq!(table(width).text().lines().collect::<Vec<_>>(), lines);
    }

    #[test]
    fn a_wide_terminal_shows_everything() {
        check(
            Some(200),
            &[
                "ID             JOB       STATE    DUE (UTC)          ATTEMPT  RESULT",
                "4683711365120  nightly   failed   08:00:00 (3m ago)  3        connection refused by the ledger of the east, for the third time today",
                "4683711365121  夜间结算  running  08:01:00 (2m ago)  1        -",
            ],
        );
        assert_eq!(table(None).text(), table(Some(200)).text(), "nobody cuts lines for a program");
    }

    #[test]
    fn the_last_column_is_cut_first() {
        check(
            Some(80),
            &[
                "ID             JOB       STATE    DUE (UTC)          ATTEMPT  RESULT",
                "4683711365120  nightly   failed   08:00:00 (3m ago)  3        connection refuse…",
                "4683711365121  夜间结算  running  08:01:00 (2m ago)  1        -",
            ],
        );
    }

    #[test]
    fn what_matters_least_is_left_out() {
        check(
            Some(40),
            &[
                "ID             JOB       STATE",
                "4683711365120  nightly   failed",
                "4683711365121  夜间结算  running",
            ],
        );
    }

    #[test]
    fn no_line_is_ever_wider_than_the_terminal() {
        let plain =
            |text: &str| text.chars().map(|c| if c.is_ascii() || c == '…' { 1 } else { 2 }).sum::<u16>();
        for width in 5..=200 {
            let mut table = table(Some(width));
            table.add_row([
                "1".repeat(60),
                "名".repeat(90),
                "x".repeat(90),
                String::new(),
                "y z ".repeat(40),
            ]);
            let text = table.text();
            assert_eq!(text.lines().count(), 4, "a row is a line, at {width}: {text}");
            for line in text.lines() {
                assert!(plain(line) <= width, "{} > {width}: {line}", plain(line));
            }
        }
    }
}
