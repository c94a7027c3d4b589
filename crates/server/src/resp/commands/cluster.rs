//! CLUSTER: shows the nodes. They find each other in the store, so nothing can be changed here.

use std::net::IpAddr;

use punctual_store::Session as Member;
use punctual_wire::resp::Request;

use crate::resp::args::{is, number};
use crate::resp::endpoint::Endpoint;
use crate::resp::fault::Fault;
use crate::resp::names::NodeId;
use crate::resp::others::{parts_of, reached_at};
use crate::resp::session::Session;

/// The highest port that leaves room for Disque's cluster bus port.
const PORT_MAX: i64 = 55_535;

/// A live node.
pub(super) struct Node {
    pub(super) id: NodeId,
    pub(super) host: String,
    pub(super) port: u16,
    is_myself: bool,
}

/// All live nodes. A node without a Redis-protocol endpoint, or whose address is unknown, has port 0; a
/// single node may leave its host empty.
pub(super) async fn nodes(endpoint: &Endpoint) -> Vec<Node> {
    let (me, others): (Vec<Member>, Vec<Member>) =
        endpoint.queues.members().into_iter().partition(|member| *member.node == *endpoint.name);
    let (host, port) = reached_at(endpoint.address, me.first());
    let host = if others.is_empty() { String::new() } else { host };
    let myself = Node { id: endpoint.node.clone(), host, port, is_myself: true };
    let endpoints = endpoint.others.endpoints_of(&others).await;
    let others = others.iter().zip(endpoints).map(|(member, at)| {
        let host_alone = || (member.address.as_deref().and_then(parts_of).unwrap_or_default().0, 0);
        let (host, port) = at.unwrap_or_else(host_alone);
        Node { id: NodeId::of(&member.node), host, port, is_myself: false }
    });
    std::iter::once(myself).chain(others).collect()
}

pub(in crate::resp) async fn run(session: &mut Session, request: &Request) -> Result<(), Fault> {
    let (word, words) = (request.word(1), request.len());
    match words {
        2 if is(word, "MYID") => session.out.text(session.endpoint.node.as_str()),
        2 if is(word, "NODES") => session.out.text(&listed(&session.endpoint).await),
        2 if is(word, "INFO") => session.out.text(&info(&session.endpoint)),
        2 if is(word, "SAVECONFIG") => session.out.simple("OK"),
        4 if is(word, "MEET") => meet(session, request.word(2), request.word(3))?,
        3 if is(word, "FORGET") => return Err(forget(&session.endpoint, request.word(2)).await),
        2 | 3 if is(word, "LEAVING") => leaving(session, request)?,
        2 | 3 if is(word, "RESET") => {
            return Err(Fault::new("ERR nodes meet in the store: there is nothing to reset"));
        }
        _ => return Err(Fault::new("ERR Wrong CLUSTER subcommand or number of arguments")),
    }
    Ok(())
}

async fn listed(endpoint: &Endpoint) -> String {
    let line = |node: Node| {
        let flags = if node.is_myself { "myself" } else { "noflags" };
        format!("{} {}:{} {flags} 0 0 connected\n", node.id.as_str(), node.host, node.port)
    };
    nodes(endpoint).await.into_iter().map(line).collect()
}

fn info(endpoint: &Endpoint) -> String {
    let nodes = endpoint.nodes();
    format!(
        "cluster_state:ok\r\ncluster_known_nodes:{nodes}\r\ncluster_reachable_nodes:{}\r\ncluster_size:{nodes}\r\n\
cluster_stats_messages_sent:0\r\ncluster_stats_messages_received:0\r\n",
        nodes - 1
    )
}

fn meet(session: &mut Session, host: &[u8], port: &[u8]) -> Result<(), Fault> {
    let shown = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
    if number(port).is_none_or(|port| !(1..=PORT_MAX).contains(&port)) {
        return Err(Fault::of(format!("ERR Invalid TCP port specified: {}", shown(port))));
    }
    if shown(host).parse::<IpAddr>().is_err() {
        return Err(Fault::of(format!(
            "ERR Invalid node address specified: {}:{}",
            shown(host),
            shown(port)
        )));
    }
    session.out.simple("OK, and nothing was done: nodes that share a store have met already");
    Ok(())
}

async fn forget(endpoint: &Endpoint, id: &[u8]) -> Fault {
    let id = String::from_utf8_lossy(id).to_ascii_lowercase();
    if id.len() != endpoint.node.as_str().len() || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Fault::new("ERR Invalid node identifier");
    }
    if id == endpoint.node.as_str() {
        return Fault::new("ERR I tried hard but I can't forget myself...");
    }
    if nodes(endpoint).await.iter().all(|node| node.id.as_str() != id) {
        return Fault::of(format!("ERR Unknown node {id}"));
    }
    Fault::new("ERR a node that has stopped is forgotten by itself")
}

fn leaving(session: &mut Session, request: &Request) -> Result<(), Fault> {
    match request.len() {
        2 => session.out.simple("no"),
        _ if is(request.word(2), "NO") => session.out.simple("no"),
        _ if is(request.word(2), "YES") => {
            return Err(Fault::new(
                "ERR stop the process: what it leads is handed over, and nothing is lost",
            ));
        }
        _ => return Err(Fault::new("ERR Wrong argument for CLUSTER LEAVING. Use 'yes' or 'no'")),
    }
    Ok(())
}
