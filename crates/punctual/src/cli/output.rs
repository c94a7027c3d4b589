//! How things are printed: a table for people, the objects of REST for programs.

use std::env;
use std::io::{self, IsTerminal, Write};

use comfy_table::{Cell, Color, ColumnConstraint, ContentArrangement, Table, presets};
use punctual_core::Timestamp;
use punctual_core::run::Status;
use punctual_wire::yaml;
use serde::Serialize;

use super::failure::{Exit, Failure};
use super::{Format, time};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    format: Format,
    /// A person looks at a terminal that has colours and did not decline them.
    colour: bool,
    terminal: bool,
    /// Only what matters most fits beside each other.
    narrow: bool,
}

/// Columns that a whole listing needs.
const WIDE: u16 = 110;

impl Output {
    pub(crate) fn new(format: Format) -> Self {
        let terminal = io::stdout().is_terminal();
        let declined = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
        let narrow = terminal && Table::new().width().is_some_and(|width| width < WIDE);
        Output { format, colour: terminal && !declined && !dumb, terminal, narrow }
    }

    pub(crate) fn is_terminal(self) -> bool {
        self.terminal
    }

    pub(crate) fn is_narrow(self) -> bool {
        self.narrow
    }

    /// A time in a table: exact and relative or, where there is little room, relative only.
    pub(crate) fn time(self, at: Timestamp, now: Timestamp) -> String {
        if self.narrow { time::relative(at, now) } else { time::short(at, now) }
    }

    /// Prints objects as they are, or else what `table` makes of them.
    pub(crate) fn show<T: Serialize + ?Sized>(
        self,
        objects: &T,
        table: impl FnOnce(Self) -> String,
    ) -> Result<(), Failure> {
        let text = match self.format {
            Format::Table => table(self),
            Format::Json => {
                serde_json::to_string_pretty(objects).map_err(|error| Failure::new(Exit::Failed, error))?
            }
            Format::Yaml => yaml::to_string(&objects).map_err(|error| Failure::new(Exit::Failed, error))?,
        };
        print(&text)
    }

    pub(crate) fn table(self, header: &[&str]) -> Table {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_header(header.iter().map(Cell::new));
        let last = header.len().saturating_sub(1);
        for (index, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, 2));
            // Ids, names and times stay in one piece; the last column takes what is left.
            if index < last {
                column.set_constraint(ColumnConstraint::ContentWidth);
            }
        }
        if self.terminal {
            table.set_content_arrangement(ContentArrangement::Dynamic);
        } else {
            // Nobody wraps lines for a program.
            table.force_no_tty().set_content_arrangement(ContentArrangement::Disabled);
        }
        if self.colour {
            table.enforce_styling();
        }
        table
    }

    /// A state in its colour. Only the word tells it; the colour helps.
    pub(crate) fn state(self, status: Status) -> Cell {
        let cell = Cell::new(status);
        if !self.colour {
            return cell;
        }
        match status {
            Status::Succeeded => cell.fg(Color::Green),
            Status::Failed | Status::TimedOut => cell.fg(Color::Red),
            Status::Running => cell.fg(Color::Cyan),
            Status::Cancelled | Status::Skipped => cell.fg(Color::Yellow),
            Status::Waiting | Status::Ready => cell,
        }
    }
}

/// Prints to stdout, with one line end at the end.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let text = text.trim_end_matches('\n');
    if text.is_empty() {
        return Ok(());
    }
    let mut out = io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(Failure::io)
}

/// The lines of a table, one a row: what does not fit is cut, `show` and `-o json` have it whole.
pub(crate) fn text(mut table: Table) -> String {
    for row in table.row_iter_mut() {
        row.max_height(1);
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n")
}

/// One thing, field by field; what it does not have is left out.
pub(crate) fn fields(rows: &[(&str, Option<String>)]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut lines = Vec::new();
    for (name, value) in rows {
        let Some(value) = value else { continue };
        let plain: String =
            value.trim_end().chars().filter(|c| !c.is_control() || "\n\t".contains(*c)).collect();
        // Further lines of a value stand below its first one.
        let value = plain.replace('\n', &format!("\n{:width$}  ", ""));
        lines.push(format!("{name:width$}  {value}"));
    }
    lines.join("\n")
}

/// A text from elsewhere on one line, safe to show on a terminal.
pub(crate) fn one_line(text: &str, max: usize) -> String {
    let plain: String = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match plain.char_indices().nth(max) {
        Some((end, _)) => format!("{}…", plain[..end].trim_end()),
        None => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_from_elsewhere_cannot_play_tricks_with_the_terminal() {
        assert_eq!(one_line("a\n\u{1b}[31mred", 40), "a  [31mred");
        assert_eq!(one_line("abcdef", 3), "abc…");
    }

    #[test]
    fn fields_line_up_and_leave_out_what_is_not_there() {
        let rows =
            [("id", Some("7".to_owned())), ("error", None), ("output", Some("a\n\u{1b}b\n".to_owned()))];
        assert_eq!(fields(&rows), "id      7\noutput  a\n        b");
    }
}
