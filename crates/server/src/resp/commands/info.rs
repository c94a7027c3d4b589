//! INFO [section]: the state of the node, in Disque's fields.

use std::fmt::Write;
use std::sync::atomic::Ordering::Relaxed;

use punctual_core::limits::PAGE_MAX;
use punctual_wire::resp::Request;

use crate::resp::args::is;
use crate::resp::counts::Command;
use crate::resp::endpoint::Endpoint;
use crate::resp::fault::Fault;
use crate::resp::process;
use crate::resp::session::Session;

/// Queues that are read to count jobs.
const QUEUES_LOOKED_AT: usize = 10_000;
const SECTIONS: [&str; 9] =
    ["server", "clients", "memory", "jobs", "queues", "persistence", "stats", "cpu", "commandstats"];

pub(in crate::resp) async fn run(session: &mut Session, request: &Request) -> Result<(), Fault> {
    let wanted = request.word(1);
    let all = is(wanted, "ALL") || is(wanted, "EVERYTHING");
    let default = request.len() == 1 || is(wanted, "DEFAULT");
    let mut text = String::new();
    for section in SECTIONS {
        let is_wanted = all || is(wanted, section) || (default && section != "commandstats");
        if !is_wanted {
            continue;
        }
        if !text.is_empty() {
            text.push_str("\r\n");
        }
        let lines = lines(session, section).await?;
        // Writing into a string cannot fail.
        let _ = write!(text, "# {}{}\r\n", section[..1].to_ascii_uppercase(), &section[1..]);
        for (name, value) in lines {
            let _ = write!(text, "{name}:{value}\r\n");
        }
    }
    session.out.text(&text);
    Ok(())
}

/// ROLE: this node accepts writes and has no replicas.
pub(in crate::resp) async fn role(session: &mut Session, _: &Request) -> Result<(), Fault> {
    session.out.array(3);
    session.out.text("master");
    session.out.number(0);
    session.out.array(0);
    Ok(())
}

type Lines = Vec<(String, String)>;

fn line(name: &str, value: &(impl ToString + ?Sized)) -> (String, String) {
    (name.to_owned(), value.to_string())
}

async fn lines(session: &Session, section: &str) -> Result<Lines, Fault> {
    let endpoint = &session.endpoint;
    Ok(match section {
        "server" => server(endpoint),
        "clients" => vec![
            line("connected_clients", &endpoint.clients.len()),
            line("client_longest_output_list", &0),
            line("client_biggest_input_buf", &0),
            line("blocked_clients", &endpoint.clients.waiting()),
        ],
        "memory" => memory(),
        "jobs" => vec![line("registered_jobs", &registered(session).await?.1)],
        "queues" => vec![line("registered_queues", &registered(session).await?.0)],
        "persistence" => persistence(),
        "stats" => stats(endpoint),
        "cpu" => {
            let (system, user) = process::processor();
            vec![
                line("used_cpu_sys", &format!("{system:.2}")),
                line("used_cpu_user", &format!("{user:.2}")),
                line("used_cpu_sys_children", "0.00"),
                line("used_cpu_user_children", "0.00"),
            ]
        }
        _ => commandstats(endpoint),
    })
}

fn server(endpoint: &Endpoint) -> Lines {
    let uptime = endpoint.started.elapsed().as_secs();
    vec![
        line("disque_version", "1.0-rc1"),
        line("punctual_version", env!("CARGO_PKG_VERSION")),
        line("punctual_url", endpoint.settings.rest_url.as_deref().unwrap_or_default()),
        // Client libraries decide by this version what they may send.
        line("redis_version", "6.0.0"),
        line("redis_mode", "standalone"),
        line("disque_git_sha1", "00000000"),
        line("disque_git_dirty", &0),
        line("disque_build_id", &0),
        line("os", std::env::consts::OS),
        line("arch_bits", &usize::BITS),
        line("multiplexing_api", "epoll"),
        line("gcc_version", "0.0.0"),
        line("process_id", &std::process::id()),
        line("run_id", endpoint.node.as_str()),
        line("tcp_port", &endpoint.address.port()),
        line("uptime_in_seconds", &uptime),
        line("uptime_in_days", &(uptime / 86400)),
        line("hz", &10),
        line("executable", ""),
        line("config_file", ""),
    ]
}

fn memory() -> Lines {
    let bytes = process::resident();
    let human = format!("{}M", bytes / (1024 * 1024));
    vec![
        line("used_memory", &bytes),
        line("used_memory_human", &human),
        line("used_memory_rss", &bytes),
        line("used_memory_peak", &bytes),
        line("used_memory_peak_human", &human),
        line("mem_fragmentation_ratio", "1.00"),
        line("mem_allocator", "mimalloc"),
    ]
}

/// An acknowledged change is on disk, so there is no append-only file that could lag behind.
fn persistence() -> Lines {
    vec![
        line("loading", &0),
        line("aof_enabled", &1),
        line("aof_state", "on"),
        line("aof_rewrite_in_progress", &0),
        line("aof_rewrite_scheduled", &0),
        line("aof_last_rewrite_time_sec", &-1),
        line("aof_current_rewrite_time_sec", &-1),
        line("aof_last_bgrewrite_status", "ok"),
        line("aof_last_write_status", "ok"),
    ]
}

fn stats(endpoint: &Endpoint) -> Lines {
    let counts = &endpoint.counts;
    vec![
        line("total_connections_received", &counts.connections.load(Relaxed)),
        line("total_commands_processed", &counts.all()),
        line("instantaneous_ops_per_sec", &counts.per_second(endpoint.started)),
        line("total_net_input_bytes", &counts.bytes_in.load(Relaxed)),
        line("total_net_output_bytes", &counts.bytes_out.load(Relaxed)),
        line("instantaneous_input_kbps", "0.00"),
        line("instantaneous_output_kbps", "0.00"),
        line("rejected_connections", &counts.rejected.load(Relaxed)),
        line("latest_fork_usec", &0),
    ]
}

fn commandstats(endpoint: &Endpoint) -> Lines {
    let line = |command: &Command| {
        let (calls, micros) = (command.calls(), command.micros());
        let name = format!("cmdstat_{}", command.name.to_ascii_lowercase());
        (calls > 0).then(|| (name, format!("calls={calls},usec={micros},usec_per_call={}", micros / calls)))
    };
    endpoint.counts.commands().iter().filter_map(line).collect()
}

/// The number of queues and jobs of this namespace, up to [`QUEUES_LOOKED_AT`] queues.
async fn registered(session: &Session) -> Result<(u64, u64), Fault> {
    let (mut queues, mut jobs, mut after) = (0, 0, None);
    for _ in 0..QUEUES_LOOKED_AT / PAGE_MAX {
        let page = session.endpoint.queues.queues(&session.namespace, after.as_ref(), PAGE_MAX).await?;
        let is_last = page.len() < PAGE_MAX;
        for queue in page {
            queues += 1;
            jobs += queue.messages;
            after = Some(queue.key);
        }
        if is_last {
            break;
        }
    }
    Ok((queues, jobs))
}
