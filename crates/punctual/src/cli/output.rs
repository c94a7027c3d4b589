//! Prints results: a table for people, the objects of REST for programs.

use std::env;
use std::io::{self, IsTerminal, Write};

use clap::ValueEnum;
use comfy_table::{Cell, Color};
use punctual_core::Timestamp;
use punctual_core::run::Status;
use punctual_wire::yaml;
use serde::Serialize;

use super::failure::{Exit, Failure};
use super::table::Table;
use super::time;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    format: Format,
    colour: bool,
    terminal: bool,
    /// The width of the terminal. `None` means no terminal: lines are not cut.
    width: Option<u16>,
}

/// The format of what is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Table,
    Json,
    Yaml,
    // These two are for graphs only, so the help of the other verbs leaves them out.
    #[value(hide = true)]
    Dot,
    #[value(hide = true)]
    Mermaid,
}

impl Format {
    /// Refuses a format for drawings if the verb does not draw.
    pub(crate) fn check(self, draws: bool) -> Result<(), Failure> {
        if matches!(self, Format::Dot | Format::Mermaid) && !draws {
            let message = "`-o dot` and `-o mermaid` are for `job graph`, `run graph` and `run show`";
            return Err(Failure::new(Exit::Usage, message).hint("the formats here are table, json and yaml"));
        }
        Ok(())
    }
}

/// When to colour what is printed; `Auto` is on a terminal, unless NO_COLOR is set.
// The values have no doc comments of their own: help for one value would spread --help over three screens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Colour {
    Auto,
    Always,
    Never,
}

/// How a word looks, independent of the terminal's colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Bad,
    Active,
    Odd,
    Plain,
}

/// The columns that a full listing needs.
const WIDE: u16 = 110;

impl Output {
    pub(crate) fn new(format: Format, colour: Colour) -> Self {
        let terminal = io::stdout().is_terminal();
        let width = if terminal { comfy_table::Table::new().width() } else { None };
        Output { format, colour: colour.is_wanted(terminal), terminal, width }
    }

    pub(crate) fn is_terminal(self) -> bool {
        self.terminal
    }

    /// Whether only the most important columns fit.
    pub(crate) fn is_narrow(self) -> bool {
        self.width.is_some_and(|width| width < WIDE)
    }

    pub(crate) fn format(self) -> Format {
        self.format
    }

    /// A time in a table: exact and relative or, on a narrow terminal, relative only.
    pub(crate) fn time(self, at: Timestamp, now: Timestamp) -> String {
        if self.is_narrow() { time::relative(at, now) } else { time::short(at, now) }
    }

    /// Prints the objects as JSON or YAML, or else the text from `table`.
    pub(crate) fn show<T: Serialize + ?Sized>(
        self,
        objects: &T,
        table: impl FnOnce(Self) -> String,
    ) -> Result<(), Failure> {
        let text = match self.format {
            // A verb that draws prints its drawing itself.
            Format::Table | Format::Dot | Format::Mermaid => table(self),
            Format::Json => {
                serde_json::to_string_pretty(objects).map_err(|error| Failure::new(Exit::Failed, error))?
            }
            Format::Yaml => yaml::to_string(&objects).map_err(|error| Failure::new(Exit::Failed, error))?,
        };
        print(&text)
    }

    pub(crate) fn table(self, titles: &[&str]) -> Table {
        Table::new(titles, self.width, self.colour)
    }

    /// A state in its colour. The word is enough; the colour only helps.
    pub(crate) fn state(self, status: Status) -> Cell {
        self.word(status, tone(status))
    }

    /// A word outside a table, in its colour.
    pub(crate) fn paint(self, word: &str, tone: Tone) -> String {
        let code = match tone {
            Tone::Good => 32,
            Tone::Bad => 31,
            Tone::Active => 36,
            Tone::Odd => 33,
            Tone::Plain => 0,
        };
        if self.colour { format!("\u{1b}[{code}m{word}\u{1b}[0m") } else { word.to_owned() }
    }

    pub(crate) fn word(self, word: impl ToString, tone: Tone) -> Cell {
        let cell = Cell::new(word);
        if !self.colour {
            return cell;
        }
        match tone {
            Tone::Good => cell.fg(Color::Green),
            Tone::Bad => cell.fg(Color::Red),
            Tone::Active => cell.fg(Color::Cyan),
            Tone::Odd => cell.fg(Color::Yellow),
            Tone::Plain => cell,
        }
    }
}

impl Colour {
    /// Whether to colour a stream; `terminal` says whether it is a terminal.
    pub(crate) fn is_wanted(self, terminal: bool) -> bool {
        let declined = || env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = || env::var_os("TERM").is_some_and(|term| term == "dumb");
        match self {
            Colour::Auto => terminal && !declined() && !dumb(),
            Colour::Always => true,
            Colour::Never => false,
        }
    }
}

/// The only place that decides how a state looks.
pub(crate) fn tone(status: Status) -> Tone {
    match status {
        Status::Succeeded => Tone::Good,
        Status::Failed | Status::TimedOut => Tone::Bad,
        Status::Running => Tone::Active,
        Status::Cancelled | Status::Skipped => Tone::Odd,
        Status::Waiting | Status::Ready => Tone::Plain,
    }
}

/// Prints to stdout, with one line end at the end.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let text = text.trim_end_matches('\n');
    if text.is_empty() {
        return Ok(());
    }
    let mut out = io::stdout().lock();
    // One write, so that a reader which closes after the first line does not make the second one fail.
    out.write_all(format!("{text}\n").as_bytes()).and_then(|()| out.flush()).map_err(Failure::io)
}

/// A table with one line per row. Long values are cut; `show` and `-o json` have them whole.
pub(crate) fn text(table: Table) -> String {
    table.text()
}

/// One object, field by field; absent fields are left out.
pub(crate) fn fields(rows: &[(&str, Option<String>)]) -> String {
    fields_with(rows, |_, value| value)
}

/// The same, with `state` in its colour. Values are cleaned first, so that they cannot bring their own colours.
pub(crate) fn fields_with_state(rows: &[(&str, Option<String>)], output: Output, tone: Tone) -> String {
    fields_with(rows, |name, value| if name == "state" { output.paint(&value, tone) } else { value })
}

fn fields_with(rows: &[(&str, Option<String>)], finish: impl Fn(&str, String) -> String) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut lines = Vec::new();
    for (name, value) in rows {
        let Some(value) = value else { continue };
        let plain: String =
            value.trim_end().chars().filter(|c| !c.is_control() || "\n\t".contains(*c)).collect();
        // Indent the further lines of a value.
        let value = plain.replace('\n', &format!("\n{:width$}  ", ""));
        lines.push(format!("{name:width$}  {}", finish(name, value)));
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

    #[test]
    fn a_state_among_fields_has_its_colour_where_there_are_colours() {
        let rows = [("state", Some("failed".to_owned())), ("error", Some("failed".to_owned()))];
        let looks =
            |colour| fields_with_state(&rows, Output::new(Format::Table, colour), tone(Status::Failed));
        assert_eq!(looks(Colour::Always), "state  \u{1b}[31mfailed\u{1b}[0m\nerror  failed");
        assert_eq!(looks(Colour::Never), "state  failed\nerror  failed");
    }
}
