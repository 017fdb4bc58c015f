//! What the store is asked, as commands of Redis 6.2: reads that keep a record alive, and some scripts.
//!
//! A record is bytes of which the scripts know this much: the first is its version, the third a state (5 to 8 are final),
//! the fourth how often it was given to another owner, and from the fifth on stands who owns it: first the endpoint, as two
//! bytes of length, the lower one first, and a text. `affinity` writes them.

use std::sync::LazyLock;

use redis::{Cmd, RedisError, Value, cmd};

use super::connect::Link;

/// One question, about one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// The record, which then lives for `keep` seconds more.
    Read { key: Vec<u8>, keep: u32 },
    /// Writes a record unless there is one that was given to another owner as often or oftener: then that one's owner stays.
    /// A state that is not final follows. Replies with what was there before.
    Learn { key: Vec<u8>, record: Vec<u8>, keep: u32 },
    /// Writes a record, whatever there was.
    Put { key: Vec<u8>, record: Vec<u8>, keep: u32 },
    /// Takes one call out of a budget (GCRA): one each `each` microseconds, `burst` at once. Replies with 0, or with the
    /// microseconds until there is one.
    Take { key: Vec<u8>, each: u64, burst: u32 },
    /// Takes a place among the members of a set for `keep` milliseconds, or keeps it for so long from now on, unless there are
    /// `limit` others; 0: however many there are. Replies with 0, or with 1 where there is no place.
    Occupy {
        key: Vec<u8>,
        member: Vec<u8>,
        limit: u32,
        keep: u64,
    },
    /// Gives it back.
    Vacate { key: Vec<u8>, member: Vec<u8> },
    /// Adds `amount` to a debt in microseconds, which pays itself back. Replies with 0, or with the microseconds until it is less than
    /// `most` again.
    Owe { key: Vec<u8>, amount: u64, most: u64 },
    /// Leaves a mark for `keep` seconds after that of `after`, 0 for the first. If that one is gone, or an older one stands
    /// there, it stays as it is found. Replies with the one before.
    Mark {
        key: Vec<u8>,
        mark: u32,
        after: u32,
        keep: u32,
    },
    /// What stands there, which lives no longer for it.
    Peek { key: Vec<u8> },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Nothing,
    Bytes(Vec<u8>),
    Number(i64),
    /// No room.
    Refused,
}

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error("it did not answer in time")]
    Timeout,
    #[error("{0}")]
    Broken(#[source] RedisError),
    #[error("it answered something that was not asked for")]
    Strange,
    #[error("{0}")]
    Local(String),
}

/// Who comes first owns it, of those after as many transfers; the state follows unless it is final, which it stays while the
/// endpoint is the same. Written for one key, so that a cluster can run it.
const LEARN: &str = "
local held = redis.call('GET', KEYS[1])
local new = ARGV[1]
if not held then
  redis.call('SET', KEYS[1], new, 'EX', ARGV[2])
  return false
end
local function endpoint(record)
  local low, high = string.byte(record, 5, 6)
  return string.sub(record, 5, 6 + (low or 0) + 256 * (high or 0))
end
local before, after = string.byte(held, 4) or 0, string.byte(new, 4) or 0
local same = string.sub(held, 5) == string.sub(new, 5)
if string.byte(held, 1) == string.byte(new, 1) and (same or after > before) then
  local about = string.sub(new, 2, 3)
  if endpoint(held) == endpoint(new) then
    local state = string.byte(held, 3) or 0
    if state >= 5 and state <= 8 then
      about = string.sub(held, 2, 3)
    elseif string.byte(new, 3) == 0 then
      about = string.sub(new, 2, 2) .. string.sub(held, 3, 3)
    end
  end
  new = string.sub(new, 1, 1) .. about .. string.char(math.max(before, after)) .. string.sub(new, 5)
else
  new = held
end
if new ~= held then
  redis.call('SET', KEYS[1], new, 'EX', ARGV[2])
else
  redis.call('EXPIRE', KEYS[1], ARGV[2])
end
return held
";

/// The generic cell rate algorithm by the server's clock: the key holds when the budget is whole again, in microseconds.
const TAKE: &str = "
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local each = tonumber(ARGV[1])
local whole = tonumber(redis.call('GET', KEYS[1]) or 0) or 0
if whole < now then whole = now end
local next = whole + each
local wait = next - now - each * tonumber(ARGV[2])
if wait > 0 then return math.ceil(wait) end
redis.call('SET', KEYS[1], string.format('%.0f', next), 'PX', math.ceil((next - now) / 1000))
return 0
";

/// By the server's clock. The key lives as long as its last member.
const OCCUPY: &str = "
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now))
local limit = tonumber(ARGV[2])
if limit > 0 and not redis.call('ZSCORE', KEYS[1], ARGV[1]) and redis.call('ZCARD', KEYS[1]) >= limit then
  return 1
end
redis.call('ZADD', KEYS[1], string.format('%.0f', now + tonumber(ARGV[3])), ARGV[1])
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then redis.call('PEXPIRE', KEYS[1], ARGV[3]) end
return 0
";

/// By the server's clock: the key holds when nothing is owed any more, in microseconds; at most a year from now.
const OWE: &str = "
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local free = tonumber(redis.call('GET', KEYS[1]) or 0) or 0
if free < now then free = now end
local amount = tonumber(ARGV[1])
if amount > 0 then
  free = math.min(free + amount, now + 31536000000000)
  redis.call('SET', KEYS[1], string.format('%.0f', free), 'PX', math.ceil((free - now) / 1000))
end
local wait = free - now - tonumber(ARGV[2])
if wait >= 0 and free > now then return math.ceil(wait) + 1 end
return 0
";

/// A mark is a number. What a server lost shows until the gateway has said so. After a mark that was left without an answer
/// a newer one follows; one that comes late, out of a connection that was given up, takes no newer one's place.
const MARK: &str = "
local held = redis.call('GET', KEYS[1])
local after = tonumber(ARGV[2])
local found = tonumber(held or 0) or 0
if after == 0 or found == after or (found > after and found < tonumber(ARGV[1])) then
  redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[3])
end
return held
";

struct Script {
    text: &'static str,
    hash: String,
}

static LEARN_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(LEARN));
static TAKE_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(TAKE));
static OCCUPY_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(OCCUPY));
static OWE_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(OWE));
static MARK_SCRIPT: LazyLock<Script> = LazyLock::new(|| Script::new(MARK));

impl Script {
    fn new(text: &'static str) -> Self {
        Self {
            text,
            hash: redis::Script::new(text).get_hash().to_owned(),
        }
    }
}

impl Command {
    /// Waits without a bound of its own.
    pub(super) async fn run(&self, link: &Link) -> Result<Reply, Fault> {
        match read(link.send(&self.command(Form::Hash)).await) {
            // The server was restarted, or is a new one.
            Err(Fault::Broken(error)) if error.code() == Some("NOSCRIPT") => {
                read(link.send(&self.command(Form::Text)).await)
            }
            answer => answer,
        }
    }

    fn command(&self, form: Form) -> Cmd {
        let script = |script: &Script, key: &[u8]| {
            let mut command = match form {
                Form::Hash => cmd("EVALSHA"),
                Form::Text => cmd("EVAL"),
            };
            match form {
                Form::Hash => command.arg(&script.hash),
                Form::Text => command.arg(script.text),
            };
            command.arg(1).arg(key);
            command
        };
        let mut command;
        match self {
            Self::Read { key, keep } => {
                command = cmd("GETEX");
                command.arg(key).arg("EX").arg(*keep);
            }
            Self::Learn { key, record, keep } => {
                command = script(&LEARN_SCRIPT, key);
                command.arg(record).arg(*keep);
            }
            Self::Put { key, record, keep } => {
                command = cmd("SET");
                command.arg(key).arg(record).arg("EX").arg(*keep);
            }
            Self::Take { key, each, burst } => {
                command = script(&TAKE_SCRIPT, key);
                command.arg(*each).arg(*burst);
            }
            Self::Occupy {
                key,
                member,
                limit,
                keep,
            } => {
                command = script(&OCCUPY_SCRIPT, key);
                command.arg(member).arg(*limit).arg(*keep);
            }
            Self::Vacate { key, member } => {
                command = cmd("ZREM");
                command.arg(key).arg(member);
            }
            Self::Owe { key, amount, most } => {
                command = script(&OWE_SCRIPT, key);
                command.arg(*amount).arg(*most);
            }
            Self::Mark { key, mark, after, keep } => {
                command = script(&MARK_SCRIPT, key);
                command.arg(*mark).arg(*after).arg(*keep);
            }
            Self::Peek { key } => {
                command = cmd("GET");
                command.arg(key);
            }
        }
        command
    }
}

#[derive(Clone, Copy)]
enum Form {
    Hash,
    Text,
}

fn read(answer: Result<Value, RedisError>) -> Result<Reply, Fault> {
    match answer.and_then(Value::extract_error) {
        Ok(Value::Nil | Value::Okay) => Ok(Reply::Nothing),
        Ok(Value::BulkString(bytes)) => Ok(Reply::Bytes(bytes)),
        Ok(Value::Int(number)) => Ok(Reply::Number(number)),
        Ok(_) => Err(Fault::Strange),
        Err(error) if is_full(&error) => Ok(Reply::Refused),
        // The server is well: the key is of something else. To whoever reads records this is one that cannot be read.
        Err(error) if is_of_another_type(&error) => Ok(Reply::Bytes(Vec::new())),
        Err(error) => Err(Fault::Broken(error)),
    }
}

fn is_full(error: &RedisError) -> bool {
    is(error, "OOM", "OOM command not allowed")
}

fn is_of_another_type(error: &RedisError) -> bool {
    is(error, "WRONGTYPE", "WRONGTYPE Operation against a key")
}

/// Before version 7 a script's error has the code of scripts, and says the cause in its text only.
fn is(error: &RedisError, code: &str, in_script: &str) -> bool {
    error.code() == Some(code) || error.detail().is_some_and(|text| text.contains(in_script))
}

impl Fault {
    /// The label of the metric.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Broken(error) if error.is_timeout() => "timeout",
            Self::Broken(error) if error.is_io_error() || error.is_connection_dropped() => "connection",
            Self::Broken(_) | Self::Strange => "refused",
            Self::Local(_) => "local",
        }
    }
}
