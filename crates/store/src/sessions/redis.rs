//! Sessions in Redis: an expiring hash for each, and a set of their names.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use punctual_core::ids::SessionId;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, RedisError, Script};

use super::{ANSWER_MAX, Written, strange};
use crate::{Error, Member, Result, Session, Sessions};

const NAMES: &str = "punctual:sessions";
/// One round trip; all instants are by the clock of the Redis server.
const RENEW: &str = r"
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local since = redis.call('HGET', KEYS[2], 'since') or string.format('%.0f', now)
redis.call('HSET', KEYS[2], 'since', since, 'session', ARGV[1])
redis.call('PEXPIRE', KEYS[2], ARGV[2])
redis.call('SADD', KEYS[1], KEYS[2])
local members = {}
for _, name in ipairs(redis.call('SMEMBERS', KEYS[1])) do
    local row = redis.call('HMGET', name, 'session', 'since')
    if row[1] then
        members[#members + 1] = row[1]
        members[#members + 1] = string.format('%.0f', math.max(0, now - row[2]))
    else
        redis.call('SREM', KEYS[1], name)
    end
end
return members
";

pub(super) struct Redis {
    connection: ConnectionManager,
    renew: Script,
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis").finish_non_exhaustive()
    }
}

impl Redis {
    pub(super) fn new(address: &str) -> Result<Self> {
        // The error says what is wrong with the address, and never repeats the password in it.
        let unusable = |error: RedisError| Error::Unusable(format!("the address of Redis: {error}"));
        let config = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(ANSWER_MAX))
            .set_response_timeout(Some(ANSWER_MAX))
            .set_number_of_retries(0);
        let client = Client::open(address).map_err(unusable)?;
        let connection = ConnectionManager::new_lazy_with_config(client, config).map_err(unusable)?;
        Ok(Redis { connection, renew: Script::new(RENEW) })
    }
}

#[async_trait]
impl Sessions for Redis {
    async fn renew(&self, session: &Session, ttl: Duration) -> Result<Vec<Member>> {
        let written = serde_json::to_string(&Written::from(session)).map_err(strange)?;
        let ttl = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        let mut asked = self.renew.key(NAMES);
        asked.key(name(session.id)).arg(written).arg(ttl);
        let rows: Vec<(String, u64)> =
            asked.invoke_async(&mut self.connection.clone()).await.map_err(unreachable)?;
        let mut members = rows.into_iter().map(member).collect::<Result<Vec<_>>>()?;
        members.sort_by_key(|member| member.session.id);
        Ok(members)
    }

    async fn leave(&self, session: SessionId) -> Result<()> {
        let mut deletion = redis::pipe();
        deletion.del(name(session)).ignore().srem(NAMES, name(session)).ignore();
        deletion.query_async(&mut self.connection.clone()).await.map_err(unreachable)
    }
}

fn name(session: SessionId) -> String {
    format!("punctual:session:{session}")
}

fn member((written, age): (String, u64)) -> Result<Member> {
    let written: Written = serde_json::from_str(&written).map_err(strange)?;
    Ok(Member { session: written.into(), age: Duration::from_millis(age) })
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that map_err wants")]
fn unreachable(error: RedisError) -> Error {
    Error::Unreachable(format!("Redis, which keeps the sessions: {error}"))
}
