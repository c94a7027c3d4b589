//! `punctual descriptor`: the schemas of gRPC services.

use std::path::PathBuf;

use clap::Subcommand;
use punctual_core::name::Name;
use punctual_wire::rest::{Descriptor, Made};

use super::failure::{Exit, Failure};
use super::output::{fields, print, text};
use super::paging::{gather, say_if_more};
use super::{Session, time};
use crate::wiring;

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Store a descriptor set, or change it
    #[command(after_help = "\
Examples:
  protoc --include_imports --descriptor_set_out=orders.binpb orders.proto
  punctual descriptor apply orders orders.binpb

A job that names it carries the part that it needs. It follows a changed set when it is applied again.")]
    Apply {
        name: Name,
        /// A google.protobuf.FileDescriptorSet with all imports
        file: PathBuf,
    },
    /// List the descriptor sets of a namespace
    #[command(
        after_help = "Examples:\n  punctual descriptor list\n  punctual descriptor list -n payments -o json"
    )]
    List {
        /// The most to show
        #[arg(long, default_value_t = 1000)]
        limit: usize,
    },
    /// Show one descriptor set: its services and their unary methods
    #[command(after_help = "Example:\n  punctual descriptor show orders")]
    Show { name: Name },
    /// Delete a descriptor set; jobs keep the part that they carry
    #[command(after_help = "Example:\n  punctual descriptor delete orders")]
    Delete { name: Name },
}

impl Verb {
    pub(crate) async fn run(self, session: &Session) -> Result<(), Failure> {
        let Session { client, namespace, .. } = session;
        match self {
            Verb::Apply { name, file } => {
                let set = std::fs::read(&file)
                    .map_err(|error| Failure::new(Exit::Failed, format!("{}: {error}", file.display())))?;
                let (made, descriptor) = client.put_descriptor(namespace, &name, &set).await?;
                session.output.show(&descriptor, |_| sentence(made, &descriptor))
            }
            Verb::List { limit } => list(session, limit).await,
            Verb::Show { name } => {
                let descriptor = client.descriptor(namespace, &name).await?;
                session.output.show(&descriptor, |_| shown(&descriptor))
            }
            Verb::Delete { name } => {
                client.delete_descriptor(namespace, &name).await?;
                print(&format!("deleted {namespace}/{name}"))
            }
        }
    }
}

fn sentence(made: Made, descriptor: &Descriptor) -> String {
    let subject = format!("{} {}/{}", made.as_str(), descriptor.namespace, descriptor.name);
    match made {
        Made::Unchanged => subject,
        Made::Created | Made::Changed => format!("{subject}, version {}", descriptor.version),
    }
}

async fn list(session: &Session, limit: usize) -> Result<(), Failure> {
    let (descriptors, more) = gather(limit, async |after, size| {
        session.client.descriptors(&session.namespace, after.as_deref(), size).await
    })
    .await?;
    session.output.show(&descriptors, |output| {
        let now = wiring::now();
        let mut table = output.table(&["NAME", "VERSION", "CHANGED (UTC)", "BYTES"]);
        for descriptor in &descriptors {
            table.add_row([
                descriptor.name.to_string(),
                descriptor.version.to_string(),
                output.time(descriptor.updated_at.0, now),
                descriptor.bytes.to_string(),
            ]);
        }
        text(table)
    })?;
    say_if_more(more);
    Ok(())
}

fn shown(descriptor: &Descriptor) -> String {
    let services = descriptor.services.iter().flatten();
    let methods: Vec<String> = services
        .flat_map(|service| service.methods.iter().map(|method| format!("{}/{method}", service.name)))
        .collect();
    fields(&[
        ("descriptor", Some(format!("{}/{}", descriptor.namespace, descriptor.name))),
        ("version", Some(descriptor.version.to_string())),
        ("changed", Some(time::both(descriptor.updated_at.0, wiring::now()))),
        ("bytes", Some(descriptor.bytes.to_string())),
        ("methods", (!methods.is_empty()).then(|| methods.join("\n"))),
    ])
}
