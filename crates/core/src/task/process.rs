//! Templates of a process: its arguments, its environment and its directory.
//!
//! The result of an expression stays one argument or one value. A user who may start a job chooses its parameters, so
//! these must never choose the program or silently become an option of it.

use std::collections::BTreeMap;

use super::Process;
use crate::invalid::Invalid;
use crate::template::{Scope, Template, Values};

/// Parses a template; the error names the field.
pub(crate) fn template(field: &str, text: &str, scope: &Scope<'_>) -> Result<Template, Invalid> {
    Template::parse_in(text, scope).map_err(|error| Invalid::new(field.to_owned(), error.in_text(text)))
}

pub(super) fn render(field: &str, text: &str, values: &Values) -> Result<String, Invalid> {
    let rendered = template(field, text, &Scope::CHECKED_TASK)?.render(values);
    let rendered = rendered.map_err(|error| Invalid::new(field.to_owned(), error.in_text(text)))?;
    if rendered.contains('\0') {
        return Err(Invalid::new(field.to_owned(), "gives a NUL byte, which cannot be passed on"));
    }
    Ok(rendered)
}

/// Refuses template expressions in a shell text: the shell would execute the inserted values.
pub(crate) fn check_shell(text: &str, scope: &Scope<'_>) -> Result<(), Invalid> {
    let names_ours = |rest: &str| {
        let rest = rest.trim_start_matches(['{', ' ']);
        let name = rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default();
        scope.has(name)
    };
    if text.match_indices("{{").any(|(at, _)| names_ours(&text[at..])) {
        let hint = "a shell text is no template, for a shell would run what is spliced in; parameters are in \
                    $PUNCTUAL_PARAMS and on standard input as JSON, or use process: { command: [...] }";
        return Err(Invalid::new("task.shell", hint));
    }
    Ok(())
}

impl Process {
    pub(crate) fn check_templates(&self, scope: &Scope<'_>) -> Result<(), Invalid> {
        for (index, word) in self.command.iter().enumerate() {
            let field = format!("task.process.command[{index}]");
            let word = template(&field, word, scope)?;
            if index == 0 && !word.is_literal() {
                let message =
                    "the program itself is no template: who starts the job must not choose what runs";
                return Err(Invalid::new(field, message));
            }
        }
        for (name, value) in &self.env {
            let field = format!("task.process.env.{name}");
            if !template(&field, value, scope)?.is_literal() && name == "PATH" {
                return Err(Invalid::new(
                    field,
                    "is no template: who starts the job must not choose what runs",
                ));
            }
        }
        if let Some(dir) = &self.dir
            && !template("task.process.dir", dir, scope)?.is_literal()
            && self.command.first().is_some_and(|program| program.contains('/') && !program.starts_with('/'))
        {
            let message =
                "with a folder that is a template, name the program by its full path or by its name alone";
            return Err(Invalid::new("task.process.dir", message));
        }
        Ok(())
    }

    /// The process with every expression evaluated.
    pub fn render(&self, values: &Values) -> Result<Process, Invalid> {
        let mut command = Vec::with_capacity(self.command.len());
        let mut options_over = false;
        for (index, word) in self.command.iter().enumerate() {
            let field = format!("task.process.command[{index}]");
            let rendered = render(&field, word, values)?;
            if rendered.starts_with('-')
                && !options_over
                && template(&field, word, &Scope::CHECKED_TASK)?.begins_with_expression()
            {
                let message = "gives a word that begins with `-`, which the program would take for an option; put \
                               \"--\" before it, or write the option itself";
                return Err(Invalid::new(field, message));
            }
            options_over |= word == "--";
            command.push(rendered);
        }
        let env = self.env.iter().map(|(name, value)| {
            Ok((name.clone(), render(&format!("task.process.env.{name}"), value, values)?))
        });
        let env = env.collect::<Result<BTreeMap<String, String>, Invalid>>()?;
        let dir = self.dir.as_ref().map(|dir| render("task.process.dir", dir, values)).transpose()?;
        Ok(Process { command, env, dir })
    }
}
