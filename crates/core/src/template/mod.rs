//! Templates: a text with expressions, `--day {{ due | date }}`; and conditions, an expression that is true or
//! false.
//!
//! The syntax of expressions is Jinja's, without its statements. They are parsed and checked when a job is saved, so
//! that a misspelt name is refused then and not in a failed run. The worker evaluates them just before it executes the
//! task. Nothing here reads a clock or a file, and every text, step and result has a limit: a user who may start a job
//! chooses its parameters, and must not choose how much memory they cost.
//!
//! ```text
//!  text ──scan──▶ pieces ──depth, expr──▶ Template ──eval, with Values──▶ text
//! ```

mod scan;
mod depth;
mod scope;
mod value;
mod expr;
mod filters;
mod dates;
mod is_tests;
mod work;
mod eval;

use std::fmt;
use std::sync::Arc;

use expr::{Expr, Kind};
use scan::Piece;
use work::Work;

use crate::limits::{EXPRESSION_BYTES_MAX, EXPRESSION_RESULT_BYTES_MAX, EXPRESSIONS_MAX};
pub use scope::{Scope, Steps, Values};
pub use value::Value;

/// An error in a text, and its byte offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    pub at: usize,
    pub message: String,
}

impl Error {
    /// The error of a parser that began at byte `begin` of the text.
    fn of_syntax(error: &minijinja::Error, begin: usize) -> Error {
        let at = begin + error.range().map_or(0, |range| range.start);
        Error { at, message: error.detail().map_or_else(|| error.kind().to_string(), str::to_owned) }
    }

    /// The message with line and column.
    pub fn in_text(&self, text: &str) -> String {
        let before = &text[..text.floor_char_boundary(self.at)];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        if text.contains('\n') {
            format!("{} (line {line}, column {column} of the text)", self.message)
        } else {
            format!("{} (column {column} of the text)", self.message)
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// A text with expressions.
#[derive(Debug, Clone)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Debug, Clone)]
enum Part {
    Literal(Box<str>),
    Expression(Expr),
}

impl Template {
    /// Parses a template of a task.
    pub fn parse(text: &str) -> Result<Template, Error> {
        Template::parse_in(text, &Scope::TASK)
    }

    pub fn parse_in(text: &str, scope: &Scope<'_>) -> Result<Template, Error> {
        let pieces = scan::scan(text)?;
        let expressions = pieces.iter().filter(|piece| matches!(piece, Piece::Expression(..))).count();
        if expressions > EXPRESSIONS_MAX {
            let message = format!("at most {EXPRESSIONS_MAX} expressions in one text");
            return Err(Error { at: 0, message });
        }
        let parts = pieces.into_iter().map(|piece| match piece {
            Piece::Literal(text) => Ok(Part::Literal(text.into())),
            Piece::Expression(source, at) => Ok(Part::Expression(expr::read(source, at, scope)?)),
        });
        Ok(Template { parts: parts.collect::<Result<_, Error>>()? })
    }

    /// Whether it has no expression.
    pub fn is_literal(&self) -> bool {
        self.parts.iter().all(|part| matches!(part, Part::Literal(_)))
    }

    /// Whether it begins with an expression.
    pub fn begins_with_expression(&self) -> bool {
        matches!(self.parts.first(), Some(Part::Expression(_)))
    }

    pub fn render(&self, values: &Values) -> Result<String, Error> {
        self.render_with(values, |text, out| out.push_str(text))
    }

    /// Like [`Template::render`], but percent-encodes the results of expressions, so that each stays one part of a URL.
    pub fn render_url(&self, values: &Values) -> Result<String, Error> {
        self.render_with(values, |text, out| out.push_str(&filters::percent_encoded(text)))
    }

    fn render_with(&self, values: &Values, add: impl Fn(&str, &mut String)) -> Result<String, Error> {
        let mut work = Work::new();
        let mut out = String::new();
        for part in &self.parts {
            let at = match part {
                Part::Literal(text) => {
                    out.push_str(text);
                    0
                }
                Part::Expression(expr) => {
                    let value = eval::eval(expr, values, &mut work)?;
                    let text = work::written(&value, &mut work);
                    add(&text.map_err(|message| Error { at: expr.at, message })?, &mut out);
                    expr.at
                }
            };
            if out.len() > EXPRESSION_RESULT_BYTES_MAX {
                let message = format!("gives more than {EXPRESSION_RESULT_BYTES_MAX} bytes");
                return Err(Error { at, message });
            }
        }
        Ok(out)
    }

    /// The result as a value: a template of a single expression keeps the type of its value.
    pub fn evaluate(&self, values: &Values) -> Result<Value, Error> {
        match self.parts.as_slice() {
            [Part::Expression(expr)] => Ok(eval::eval(expr, values, &mut Work::new())?),
            _ => self.render(values).map(Value::text),
        }
    }
}

/// An expression by itself, not in a text.
#[derive(Debug, Clone)]
pub struct Expression {
    expr: Expr,
}

impl Expression {
    pub fn parse_in(text: &str, scope: &Scope<'_>) -> Result<Expression, Error> {
        Expression::of("an expression", text, scope)
    }

    /// `what` is its name in errors.
    fn of(what: &str, text: &str, scope: &Scope<'_>) -> Result<Expression, Error> {
        if text.len() > EXPRESSION_BYTES_MAX {
            return Err(Error { at: 0, message: format!("{what} has at most {EXPRESSION_BYTES_MAX} bytes") });
        }
        if text.trim_start().starts_with("{{") {
            let message = format!("{what} stands by itself here, without `{{{{` and `}}}}`");
            return Err(Error { at: 0, message });
        }
        Ok(Expression { expr: expr::read(text, 0, scope)? })
    }

    pub fn evaluate(&self, values: &Values) -> Result<Value, Error> {
        Ok(eval::eval(&self.expr, values, &mut Work::new())?)
    }

    /// The text of its value, as in a template.
    pub fn evaluate_text(&self, values: &Values) -> Result<Arc<str>, Error> {
        let mut work = Work::new();
        let value = eval::eval(&self.expr, values, &mut work)?;
        work::written(&value, &mut work).map_err(|message| Error { at: self.expr.at, message })
    }
}

/// An expression that is true or false.
#[derive(Debug, Clone)]
pub struct Condition(Expression);

impl Condition {
    /// Parses a condition on a response.
    pub fn parse(text: &str) -> Result<Condition, Error> {
        Condition::parse_in(text, &Scope::RESPONSE)
    }

    pub fn parse_in(text: &str, scope: &Scope<'_>) -> Result<Condition, Error> {
        let expression = Expression::of("a condition", text, scope)?;
        if let Kind::Const(value) = &expression.expr.kind
            && !matches!(value, Value::Bool(_))
        {
            return Err(Error { at: 0, message: format!("is always {}, not true or false", value.kind()) });
        }
        Ok(Condition(expression))
    }

    pub fn holds(&self, values: &Values) -> Result<bool, Error> {
        match self.0.evaluate(values)? {
            Value::Bool(holds) => Ok(holds),
            other => {
                let message = format!("gives {}, not true or false", other.kind());
                Err(Error { at: self.0.expr.at, message })
            }
        }
    }
}

#[cfg(test)]
mod tests;
