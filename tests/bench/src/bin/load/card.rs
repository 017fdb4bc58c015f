//! Asks for a published card, as fast as the answers come back or at a fixed rate.

use a2a_gateway_bench::card::Card;
use a2a_gateway_bench::clock::now_ns;
use a2a_gateway_bench::payload;
use a2a_gateway_bench::reactor::Reactor;
use serde_json::json;

use crate::client::{Client, Failure, Turn};
use crate::unary::{BUFFER, Calls, Closed, GRACE, Load, Tally, WAIT_MS};
use crate::{Options, print};

pub struct Plan {
    pub closed: Closed,
    /// Requests a second; without it each connection asks again when it has its answer.
    pub rps: Option<u64>,
    /// With `If-None-Match`.
    pub etag: bool,
}

pub fn run(options: &Options, plan: &Plan) -> Result<(), Failure> {
    let card = fetch(options, plan.etag)?;
    let bytes = card.len();
    let mut load = Load::new(options, Calls::Card(card))?;
    let mut warm = Tally::default();
    if plan.closed.warmup > 0 {
        load.run_closed(&plan.closed, plan.closed.warmup, &mut warm)?;
    }
    options.ready(&json!({ "errors": warm.errors, "first_error": warm.first_error }))?;
    let mut tally = Tally::default();
    let took = match plan.rps {
        Some(rps) => load.run_open(rps, options.seconds, &mut tally)?,
        None => load.run_closed(&plan.closed, plan.closed.requests, &mut tally)?,
    };
    let mut report = tally.report("card", took);
    report["card_bytes"] = bytes.into();
    print(&report)
}

/// The card on a connection of its own, read whole.
fn fetch(options: &Options, known: bool) -> Result<Card, Failure> {
    let mut reactor = Reactor::new()?;
    let mut client = Client::open(options, &reactor, 0)?;
    client.send(&mut payload::get_card(&options.target, None), 0)?;
    let until = now_ns() + GRACE;
    let (mut buffer, mut reports, mut body) = (vec![0; BUFFER], Vec::new(), Vec::new());
    while now_ns() < until {
        if client.turn(&mut buffer, &mut |data| body.extend_from_slice(data))? == Turn::Answered {
            return Ok(Card::read(client.answer(), &body, known)?);
        }
        reports.clear();
        reactor.wait(&mut reports, Some(WAIT_MS))?;
    }
    Err("no card in time".into())
}
