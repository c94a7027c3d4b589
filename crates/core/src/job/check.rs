//! Refuses invalid definitions, before anything of them is stored.

use super::labels::{check_labels, check_search};
use super::{Definition, Invalid, Share, check_description, limit};
use crate::task::{self, Task};
use crate::template::Scope;
use crate::workflow::{Step, Work, Workflow};
use crate::{alert, limits, schedule};

impl Definition {
    /// Refuses an invalid definition. Every endpoint calls it before anything is stored.
    pub fn check(&self) -> Result<(), Invalid> {
        if let Some(ping) = self.ping() {
            self.check_ping(ping)?;
        }
        self.check_in(&Scope::TASK)
    }

    /// Refuses an invalid definition. `scope` has the variables of its task's templates.
    pub(crate) fn check_in(&self, scope: &Scope<'_>) -> Result<(), Invalid> {
        check_description(&self.description)?;
        check_labels(&self.labels)?;
        check_search(&self.search)?;
        if self.schedules.len() > limits::SCHEDULES_MAX {
            return Err(Invalid::new(
                "schedule",
                format!("at most {} schedules a job", limits::SCHEDULES_MAX),
            ));
        }
        for schedule in &self.schedules {
            schedule.check().map_err(|error| {
                let field = match error {
                    schedule::Error::NoDaysToKeep => "schedule.calendar",
                    schedule::Error::DayOut { .. } => "schedule.at",
                    _ => "schedule",
                };
                Invalid::new(field, error.to_string())
            })?;
        }
        self.check_task(scope)?;
        self.route.check()?;
        alert::check(&self.alerts)?;
        self.check_numbers()
    }

    /// Refuses what only a job can have, and a task that is too large to be copied into the child runs of a run without a
    /// job.
    pub fn check_alone(&self) -> Result<(), Invalid> {
        if self.ping().is_some() {
            return Err(Invalid::new("task.ping", "only a job is a ping; save it as one"));
        }
        // An incident belongs to a job.
        let alerts = self.workflow().map(Workflow::alerts).unwrap_or_default();
        if let Some((path, _)) = alerts.first() {
            let message = "only a job has alerts; make the workflow a job, and start that";
            return Err(Invalid::new(format!("task.workflow.{path}"), message));
        }
        let too_long = |task: &dyn Fn() -> serde_json::Result<Vec<u8>>| {
            task().map_or(usize::MAX, |task| task.len()) > limits::SPLIT_TASK_BYTES_MAX
        };
        let field = match self.workflow() {
            None if self.route.splits() && too_long(&|| serde_json::to_vec(&self.task)) => "task".to_owned(),
            Some(workflow) => {
                let is_too_long = |step: &Step| too_long(&|| serde_json::to_vec(&step.work));
                match copied(workflow, "task", &is_too_long) {
                    Some(field) => field,
                    None => return Ok(()),
                }
            }
            None => return Ok(()),
        };
        let message = format!(
            "at most {} bytes where every child run carries a copy; make it a job, and start that",
            limits::SPLIT_TASK_BYTES_MAX
        );
        Err(Invalid::new(field, message))
    }

    fn check_task(&self, scope: &Scope<'_>) -> Result<(), Invalid> {
        let too_long = |bytes: usize| bytes > limits::COMMAND_BYTES_MAX;
        match &self.task {
            Task::Noop | Task::Function(_) | Task::Ping(_) | Task::Job(_) => Ok(()),
            Task::Workflow(workflow) => self.check_workflow(workflow),
            Task::Shell(text) if text.trim().is_empty() => {
                Err(Invalid::new("task.shell", "the command is empty"))
            }
            Task::Shell(text) if too_long(text.len()) => {
                Err(Invalid::new("task.shell", format!("at most {} bytes", limits::COMMAND_BYTES_MAX)))
            }
            Task::Shell(text) if text.contains('\0') => {
                Err(Invalid::new("task.shell", "a NUL byte cannot be passed on"))
            }
            Task::Shell(text) => task::check_shell(text, scope),
            Task::Http(http) => http.check_in(scope),
            Task::Grpc(grpc) => grpc.check_in(scope),
            Task::Queue(queue) => self.check_message(queue, scope),
            Task::Process(process) => {
                let words = &process.command;
                if words.first().is_none_or(String::is_empty) {
                    return Err(Invalid::new(
                        "task.process.command",
                        "name the program first, then its arguments",
                    ));
                }
                if words.len() > limits::COMMAND_WORDS_MAX || too_long(words.iter().map(String::len).sum()) {
                    let message = format!(
                        "at most {} words and {} bytes",
                        limits::COMMAND_WORDS_MAX,
                        limits::COMMAND_BYTES_MAX
                    );
                    return Err(Invalid::new("task.process.command", message));
                }
                if process.env.len() > limits::ENV_ENTRIES_MAX {
                    let message = format!("at most {} entries", limits::ENV_ENTRIES_MAX);
                    return Err(Invalid::new("task.process.env", message));
                }
                check_env(process.env.iter())?;
                if words.iter().chain(process.dir.iter()).any(|word| word.contains('\0')) {
                    return Err(Invalid::new("task.process.command", "a NUL byte cannot be passed on"));
                }
                process.check_templates(scope)
            }
        }
    }

    fn check_workflow(&self, workflow: &Workflow) -> Result<(), Invalid> {
        let default = Definition::of(Task::Noop);
        let given = [
            ("retry", self.retry != default.retry),
            ("route", self.route != default.route),
            ("grace", self.grace.is_some()),
            ("at_most_once", self.at_most_once),
            ("overlap_grace", self.overlap_grace.is_some()),
        ];
        if let Some((field, _)) = given.iter().find(|(_, is_given)| *is_given) {
            return Err(Invalid::new(*field, "a workflow does not use it; give it to the steps"));
        }
        workflow.check().map_err(|error| error.under("task.workflow"))
    }

    fn check_numbers(&self) -> Result<(), Invalid> {
        let params = self.params.0.as_ref();
        if params.len() > limits::PARAMS_BYTES_MAX {
            return Err(Invalid::new(
                "params",
                format!("at most {} bytes of JSON", limits::PARAMS_BYTES_MAX),
            ));
        }
        let priorities = [("priority", Some(self.priority)), ("retry.priority", self.retry.priority)];
        if let Some((field, _)) =
            priorities.iter().find(|(_, priority)| priority.is_some_and(|p| p > limits::PRIORITY_MAX))
        {
            return Err(Invalid::new(*field, "0 to 9, and 9 goes first"));
        }
        if self.retry.attempts == 0 || self.retry.attempts > limits::ATTEMPTS_MAX {
            return Err(Invalid::new(
                "retry.attempts",
                format!("1 to {}, the first included", limits::ATTEMPTS_MAX),
            ));
        }
        self.retry.check_on()?;
        if self.retry.jitter_percent > 100 {
            return Err(Invalid::new("retry.jitter", "0% to 100%"));
        }
        if self.at_most_once && self.retry.attempts > 1 {
            return Err(Invalid::new(
                "at_most_once",
                "cannot be kept with retry.attempts above 1; drop one of them",
            ));
        }
        limit::check(&self.limits)?;
        self.share.as_ref().map_or(Ok(()), Share::check)?;
        if self.pause_after.is_some_and(|most| most == 0 || most > limits::PAUSE_AFTER_MAX) {
            return Err(Invalid::new(
                "pause_after",
                format!("1 to {} failed runs; leave it out for no limit", limits::PAUSE_AFTER_MAX),
            ));
        }
        if self.keep.runs == 0 || self.keep.days == 0 {
            return Err(Invalid::new("keep", "at least 1 run and 1 day"));
        }
        if self.timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Err(Invalid::new("timeout", "longer than nothing; leave it out for no timeout"));
        }
        if self.grace.is_some_and(|grace| grace > limits::GRACE_MAX) {
            return Err(Invalid::new("grace", format!("at most {} s", limits::GRACE_MAX.as_secs())));
        }
        if self.overlap_grace.is_some_and(|grace| grace > limits::OVERLAP_GRACE_MAX) {
            let most = limits::OVERLAP_GRACE_MAX.as_secs();
            return Err(Invalid::new("overlap_grace", format!("at most {most} s")));
        }
        if self
            .unique
            .as_ref()
            .is_some_and(|unique| unique.key.is_empty() || unique.key.len() > limits::KEY_BYTES_MAX)
        {
            return Err(Invalid::new("unique.key", format!("1 to {} bytes", limits::KEY_BYTES_MAX)));
        }
        if let Some(unique) = &self.unique {
            unique.template()?;
        }
        let spans = [
            ("timeout", self.timeout),
            ("retry.delay", Some(self.retry.delay)),
            ("retry.max_delay", Some(self.retry.max_delay)),
            ("misfire.window", Some(self.misfire.window)),
            ("misfire.grace", Some(self.misfire.grace)),
            ("unique.for", self.unique.as_ref().map(|unique| unique.kept)),
        ];
        match spans.iter().find(|(_, span)| span.is_some_and(|span| span > limits::DURATION_MAX)) {
            Some((field, _)) => Err(Invalid::new(*field, "at most ten years")),
            None => Ok(()),
        }
    }
}

/// The field of the first step that has many child runs and that `is_too_long`. Each of these runs carries a copy of it.
fn copied(workflow: &Workflow, within: &str, is_too_long: &dyn Fn(&Step) -> bool) -> Option<String> {
    workflow.all().find_map(|step| {
        let field = format!("{within}.workflow.steps.{}.task", step.name);
        let splits = step.policies.route.as_ref().is_some_and(|route| route.splits());
        if (step.map.is_some() || splits) && is_too_long(step) {
            return Some(field);
        }
        match &step.work {
            Work::Workflow(inner) => copied(inner, &field, is_too_long),
            _ => None,
        }
    })
}

/// Variables that would change how the program is loaded, or that Punctual sets itself.
const ENV_REFUSED: [&str; 4] = ["LD_", "DYLD_", "PUNCTUAL_", "GLIBC_TUNABLES"];

fn check_env<'a>(entries: impl Iterator<Item = (&'a String, &'a String)>) -> Result<(), Invalid> {
    for (name, value) in entries {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(Invalid::new(
                "task.process.env",
                format!("`{name}` cannot be set as an environment variable"),
            ));
        }
        if ENV_REFUSED.iter().any(|prefix| name.to_ascii_uppercase().starts_with(prefix)) {
            return Err(Invalid::new("task.process.env", format!("`{name}` is not for jobs to set")));
        }
    }
    Ok(())
}
