//! `punctual token`: tokens, which give access to a server.

use std::time::Duration;

use clap::{Subcommand, ValueEnum};
use punctual_core::name::Name;
use punctual_wire::rest::{self, AddToken};
use punctual_wire::text::Span;

use super::failure::Failure;
use super::output::text;
use super::paging::{gather, say_if_more};
use super::time::duration;
use super::{Session, time};
use crate::wiring;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Make a token and print it, once
    #[command(after_help = "\
Examples:
  punctual token add ci --role admin --expires 90d
  punctual token add rack-7 --role worker > token      only the token goes to stdout

It cannot be shown again: the server keeps its hash.")]
    Add {
        /// The name of the token
        name: Name,
        /// The role of the token
        #[arg(long, value_enum)]
        role: Role,
        /// How long it is valid [default: until it is removed]
        #[arg(long, value_name = "SPAN", value_parser = duration)]
        expires: Option<Duration>,
    },
    /// List the tokens
    #[command(after_help = "Example:\n  punctual token list -o json")]
    List {
        /// The most to show
        #[arg(long, default_value_t = 1000)]
        limit: usize,
    },
    /// Remove a token: every node refuses it within five seconds
    #[command(after_help = "Example:\n  punctual token remove ci")]
    Remove { name: Name },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Role {
    /// Everything except to connect as a worker
    Admin,
    /// To read everything and change nothing
    Reader,
    /// To connect as a worker, and nothing else
    Worker,
}

impl From<Role> for rest::Role {
    fn from(role: Role) -> Self {
        match role {
            Role::Admin => rest::Role::Admin,
            Role::Reader => rest::Role::Reader,
            Role::Worker => rest::Role::Worker,
        }
    }
}

impl Verb {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        match self {
            Verb::Add { name, role, expires } => add(session, name, role, expires).await,
            Verb::List { limit } => list(session, limit).await,
            Verb::Remove { name } => {
                session.client.remove_token(&name).await?;
                eprintln!("token {name} is removed");
                Ok(())
            }
        }
    }
}

async fn add(session: &Session, name: Name, role: Role, expires: Option<Duration>) -> Result<(), Failure> {
    let asked = AddToken { name, role: role.into(), expires_in: expires.map(Span) };
    let made = session.client.add_token(&asked).await?;
    session.output.show(&made, |_| made.token.clone())?;
    eprintln!("this is shown once: the server keeps only its hash");
    Ok(())
}

async fn list(session: &Session, limit: usize) -> Result<(), Failure> {
    let (tokens, more) =
        gather(limit, async |after, limit| session.client.tokens(after.as_deref(), limit).await).await?;
    session.output.show(&tokens, |output| {
        let mut table = output.table(&["TOKEN", "ROLE", "CREATED", "EXPIRES", "LAST USED HERE"]);
        let now = wiring::now();
        for token in &tokens {
            let at = |instant: Option<punctual_wire::text::Instant>, otherwise: &str| {
                instant.map_or_else(|| otherwise.to_owned(), |at| time::short(at.0, now))
            };
            table.add_row([
                token.name.clone(),
                token.role.as_str().to_owned(),
                time::short(token.created_at.0, now),
                at(token.expires_at, "never"),
                at(token.last_used_at, "-"),
            ]);
        }
        text(table)
    })?;
    say_if_more(more);
    Ok(())
}
