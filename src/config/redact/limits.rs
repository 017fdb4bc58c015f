//! Rate limits as `/config` shows them: under their keys, in their units.

use serde_json::{Value, json};

use super::super::model::{Direction, LimitBound, LimitKey, RateLimit, RateOf};
use super::super::units::{ByteRate, Rate};
use super::add;

pub(super) fn rate_limit(rule: &RateLimit) -> Value {
    let mut shown = json!({
        "name": rule.name,
        "per": match rule.per {
            LimitKey::Principal => "principal",
            LimitKey::Address => "address",
            LimitKey::Agent => "agent",
        },
        "shared": rule.shared,
        "operations": rule.operations.iter().map(|operation| operation.as_str()).collect::<Vec<_>>(),
    });
    match rule.bound {
        LimitBound::Rate {
            count,
            period,
            burst,
            of,
        } => {
            let key = match of {
                RateOf::Calls => "rate",
                RateOf::TaskCreations => "task_creations",
                RateOf::Polls => "polls",
            };
            add(&mut shown, key, Rate { count, period }.to_string());
            add(&mut shown, "burst", burst);
        }
        LimitBound::Concurrent(count) => add(&mut shown, "concurrent", count),
        LimitBound::OpenStreams(count) => add(&mut shown, "open_streams", count),
        LimitBound::OpenTasks(count) => add(&mut shown, "open_tasks", count),
        LimitBound::Bytes {
            bytes,
            period,
            direction,
        } => {
            let key = match direction {
                Direction::In => "bytes_in",
                Direction::Out => "bytes_out",
            };
            add(&mut shown, key, ByteRate { bytes, period }.to_string());
        }
    }
    shown
}
