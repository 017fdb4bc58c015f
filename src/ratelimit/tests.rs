//! Rules against callers, at each bound and one past it; the clock is set by hand.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use governor::clock::FakeRelativeClock;

use super::*;
use crate::config::RateLimit;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn rate(name: &str, per: LimitKey, count: u32, burst: u32) -> RateLimit {
    RateLimit {
        name: name.to_owned(),
        per,
        operations: Vec::new(),
        bound: LimitBound::Rate {
            count,
            period: Duration::from_secs(60),
            burst,
            of: RateOf::Calls,
        },
        shared: true,
    }
}

fn concurrent(name: &str, per: LimitKey, limit: u32) -> RateLimit {
    RateLimit {
        bound: LimitBound::Concurrent(limit),
        ..rate(name, per, 1, 1)
    }
}

fn open_streams(name: &str, per: LimitKey, limit: u32) -> RateLimit {
    RateLimit {
        bound: LimitBound::OpenStreams(limit),
        ..rate(name, per, 1, 1)
    }
}

#[test]
fn a_place_that_is_shared_is_free_when_nobody_has_it() {
    let rules = [concurrent("c", LimitKey::Principal, 1)];
    for request_first in [true, false] {
        let fixture = limiter(&rules, 9);
        let mut slot = fixture.admit("me", HERE).expect("the first");
        let shared = slot.share();
        let (one, other) = if request_first { (slot, shared) } else { (shared, slot) };
        drop(one);
        assert!(fixture.admit("me", HERE).is_err(), "the other one has it still");
        assert!(fixture.admit("you", HERE).is_ok());
        drop(other);
        assert!(fixture.admit("me", HERE).is_ok());
    }
}

#[test]
fn who_looks_takes_nothing_and_sees_what_the_next_call_would() {
    let rules = [rate("a", LimitKey::Address, 2, 2), rate("p", LimitKey::Principal, 1, 1)];
    for max_keys in [9, 1] {
        let fixture = limiter(&rules, max_keys);
        let other = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
        // Where there is room for one key alone, others share what is left.
        for address in [other, HERE] {
            for _ in 0..2 {
                for _ in 0..3 {
                    assert_eq!(fixture.limiter.look(address), Ok(()));
                }
                assert!(fixture.from(address).is_ok());
            }
            let refused = fixture.from(address).expect_err("the third");
            assert_eq!(fixture.limiter.look(address), Err(refused));
        }
        fixture.clock.advance(Duration::from_secs(31));
        assert_eq!(fixture.limiter.look(HERE), Ok(()));
    }
}

struct Fixture {
    limiter: RateLimiter<FakeRelativeClock>,
    clock: FakeRelativeClock,
}

fn limiter(rules: &[RateLimit], max_keys: usize) -> Fixture {
    let clock = FakeRelativeClock::default();
    Fixture {
        limiter: RateLimiter::with_clock(rules, max_keys, &clock),
        clock,
    }
}

impl Fixture {
    fn admit(&self, principal: &str, address: impl Into<IpAddr>) -> Result<Slot, Limited> {
        let address = address.into();
        let mut slot = Slot::default();
        self.limiter.take(&mut slot, address, Stage::Address)?;
        self.limiter
            .take(&mut slot, address, Stage::Caller(&Arc::from(principal)))?;
        Ok(slot)
    }

    /// Nobody is known yet.
    fn from(&self, address: IpAddr) -> Result<(), Limited> {
        self.limiter.take(&mut Slot::default(), address, Stage::Address)
    }

    fn call(&self, slot: &mut Slot, principal: &str, operation: Operation) -> Result<(), Limited> {
        self.limiter
            .take(slot, HERE, Stage::Call(&Arc::from(principal), operation))
    }

    /// How many requests are admitted before the first refusal; each ends at once.
    fn admitted(&self, principal: &str, address: impl Into<IpAddr>) -> usize {
        let address = address.into();
        (0..1000).take_while(|_| self.admit(principal, address).is_ok()).count()
    }

    fn keys(&self) -> usize {
        let rules = self.limiter.inner.rules();
        rules
            .map(|rule| match &rule.bound {
                Bound::Rate(buckets) => buckets.keys(),
                Bound::Concurrent(counters) | Bound::OpenStreams(counters) => counters.keys(),
                Bound::Bytes(budgets, _) => budgets.keys(),
                Bound::OpenTasks(_) => 0,
            })
            .sum()
    }
}

fn v6(text: &str) -> IpAddr {
    IpAddr::V6(text.parse::<Ipv6Addr>().unwrap())
}

fn v4(last: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + last))
}

#[test]
fn without_rules_everything_is_admitted() {
    let fixture = limiter(&[], 10);
    let mut slot = fixture.admit("ann", HERE).unwrap();
    assert!(fixture.call(&mut slot, "ann", Operation::Stream).is_ok());
    assert!(slot.held.is_empty());
}

#[test]
fn a_rate_admits_its_burst_and_then_one_each_interval() {
    let fixture = limiter(&[rate("calls", LimitKey::Principal, 60, 5)], 10);
    assert_eq!(fixture.admitted("ann", HERE), 5);
    let limited = fixture.admit("ann", HERE).unwrap_err();
    assert_eq!(&*limited.rule, "calls");
    assert_eq!(limited.limit, 60);
    assert_eq!(limited.remaining, 0);
    assert_eq!(limited.window, Some(Duration::from_secs(60)));
    assert_eq!(limited.retry_after, Duration::from_secs(1));
    assert_eq!(fixture.admitted("bob", HERE), 5, "bob has his own budget");
    fixture.clock.advance(Duration::from_millis(999));
    assert_eq!(fixture.admitted("ann", HERE), 0);
    fixture.clock.advance(Duration::from_millis(1));
    assert_eq!(fixture.admitted("ann", HERE), 1);
}

#[test]
fn retry_after_is_when_the_next_call_passes() {
    let fixture = limiter(&[rate("calls", LimitKey::Principal, 2, 1)], 10);
    assert!(fixture.admit("ann", HERE).is_ok());
    fixture.clock.advance(Duration::from_millis(500));
    let limited = fixture.admit("ann", HERE).unwrap_err();
    assert_eq!(limited.retry_after, Duration::from_secs(30));
    fixture.clock.advance(limited.retry_after);
    assert!(fixture.admit("ann", HERE).is_ok());
}

#[test]
fn addresses_are_told_apart_by_subscriber() {
    let check = |first: IpAddr, second: IpAddr, same: bool| {
        let fixture = limiter(&[rate("calls", LimitKey::Address, 60, 1)], 10);
        assert_eq!(fixture.admitted("ann", first), 1);
        let left = usize::from(!same);
        assert_eq!(fixture.admitted("bob", second), left, "{first} and {second}");
    };
    check(v4(1), v4(1), true);
    check(v4(1), v4(2), false);
    check(v6("2001:db8:0:1::1"), v6("2001:db8:0:1:ffff::2"), true);
    check(v6("2001:db8:0:1::1"), v6("2001:db8:0:2::1"), false);
    check(v6("::ffff:10.0.0.1"), v4(1), true);
    check(v6("::ffff:10.0.0.2"), v4(1), false);
}

#[test]
fn anonymous_callers_are_told_apart_by_address() {
    let fixture = limiter(&[rate("calls", LimitKey::Principal, 60, 2)], 10);
    assert_eq!(fixture.admitted(ANONYMOUS, v4(1)), 2);
    assert_eq!(fixture.admitted(ANONYMOUS, v4(2)), 2);
    assert_eq!(fixture.admitted("ann", v4(1)), 2);
    assert_eq!(fixture.admitted("ann", v4(2)), 0, "a principal is the same everywhere");
}

#[test]
fn an_agent_has_one_budget() {
    let fixture = limiter(&[rate("all", LimitKey::Agent, 60, 3)], 10);
    assert_eq!(fixture.admitted("ann", v4(1)), 3);
    assert_eq!(fixture.admitted("bob", v4(2)), 0);
}

#[test]
fn a_caller_over_its_own_budget_does_not_drain_the_agents() {
    let fixture = limiter(
        &[
            rate("all", LimitKey::Agent, 60, 3),
            rate("mine", LimitKey::Principal, 60, 1),
        ],
        10,
    );
    for _ in 0..10 {
        let admitted = fixture.admit("ann", HERE);
        if let Err(limited) = admitted {
            assert_eq!(&*limited.rule, "mine");
        }
    }
    assert!(fixture.admit("bob", HERE).is_ok());
    assert!(fixture.admit("cid", HERE).is_ok());
    assert_eq!(&*fixture.admit("dan", HERE).unwrap_err().rule, "all");
}

#[test]
fn concurrency_holds_at_the_bound_and_is_given_back_on_drop() {
    let fixture = limiter(&[concurrent("calls", LimitKey::Principal, 2)], 10);
    let first = fixture.admit("ann", HERE).unwrap();
    let second = fixture.admit("ann", HERE).unwrap();
    let limited = fixture.admit("ann", HERE).unwrap_err();
    assert_eq!(&*limited.rule, "calls");
    assert_eq!(limited.limit, 2);
    assert_eq!(limited.window, None);
    assert_eq!(limited.retry_after, Duration::from_secs(1));
    assert!(fixture.admit("bob", HERE).is_ok());
    drop(first);
    let third = fixture.admit("ann", HERE).unwrap();
    assert!(fixture.admit("ann", HERE).is_err());
    drop((second, third));
    assert_eq!(fixture.keys(), 0, "a key without a place is not kept");
}

#[test]
fn a_concurrency_of_zero_admits_nobody() {
    let fixture = limiter(&[concurrent("calls", LimitKey::Agent, 0)], 10);
    assert!(fixture.admit("ann", HERE).is_err());
    assert_eq!(fixture.keys(), 0);
}

#[test]
fn a_refusal_gives_back_what_earlier_rules_took() {
    let fixture = limiter(
        &[
            concurrent("mine", LimitKey::Principal, 1),
            concurrent("here", LimitKey::Address, 1),
            concurrent("all", LimitKey::Agent, 1),
        ],
        10,
    );
    let held = fixture.admit("ann", v4(1)).unwrap();
    assert_eq!(held.held.len(), 3);
    assert_eq!(&*fixture.admit("bob", v4(2)).unwrap_err().rule, "all");
    assert_eq!(fixture.keys(), 3, "the refused caller holds nothing");
    drop(held);
    assert!(fixture.admit("bob", v4(2)).is_ok());
}

#[test]
fn a_call_that_cannot_run_costs_no_token() {
    let fixture = limiter(
        &[
            rate("rate", LimitKey::Principal, 60, 2),
            concurrent("one", LimitKey::Principal, 1),
        ],
        10,
    );
    let held = fixture.admit("ann", HERE).unwrap();
    for _ in 0..5 {
        assert_eq!(&*fixture.admit("ann", HERE).unwrap_err().rule, "one");
    }
    drop(held);
    assert!(fixture.admit("ann", HERE).is_ok(), "one of two tokens is left");
}

#[test]
fn rules_for_operations_are_asked_after_the_body() {
    let sends = RateLimit {
        operations: vec![Operation::Send, Operation::Stream],
        ..rate("sends", LimitKey::Principal, 60, 1)
    };
    let fixture = limiter(&[sends], 10);
    let mut slot = fixture.admit("ann", HERE).unwrap();
    assert!(fixture.call(&mut slot, "ann", Operation::Get).is_ok());
    assert!(fixture.call(&mut slot, "ann", Operation::Send).is_ok());
    let limited = fixture.call(&mut slot, "ann", Operation::Stream).unwrap_err();
    assert_eq!(&*limited.rule, "sends");
    assert!(fixture.call(&mut slot, "ann", Operation::Get).is_ok());
    assert!(fixture.call(&mut slot, "bob", Operation::Send).is_ok());
}

#[test]
fn open_streams_count_streams_only() {
    let fixture = limiter(&[open_streams("streams", LimitKey::Principal, 1)], 10);
    let mut stream = fixture.admit("ann", HERE).unwrap();
    assert!(fixture.call(&mut stream, "ann", Operation::Stream).is_ok());
    for operation in Operation::ALL {
        let mut slot = fixture.admit("ann", HERE).unwrap();
        assert_eq!(
            fixture.call(&mut slot, "ann", operation).is_err(),
            operation.streams(),
            "{operation:?}"
        );
    }
    drop(stream);
    let mut slot = fixture.admit("ann", HERE).unwrap();
    assert!(fixture.call(&mut slot, "ann", Operation::Subscribe).is_ok());
}

#[test]
fn open_streams_of_some_operations_leave_others_alone() {
    let rule = RateLimit {
        operations: vec![Operation::Subscribe],
        ..open_streams("subscriptions", LimitKey::Principal, 1)
    };
    let fixture = limiter(&[rule], 10);
    let mut first = fixture.admit("ann", HERE).unwrap();
    assert!(fixture.call(&mut first, "ann", Operation::Subscribe).is_ok());
    let mut second = fixture.admit("ann", HERE).unwrap();
    assert!(fixture.call(&mut second, "ann", Operation::Stream).is_ok());
    assert!(fixture.call(&mut second, "ann", Operation::Subscribe).is_err());
}

#[test]
fn a_refused_call_keeps_the_slot_and_takes_nothing() {
    let fixture = limiter(
        &[
            concurrent("calls", LimitKey::Principal, 5),
            open_streams("mine", LimitKey::Principal, 5),
            open_streams("all", LimitKey::Agent, 1),
        ],
        10,
    );
    let mut held = fixture.admit("ann", HERE).unwrap();
    assert!(fixture.call(&mut held, "ann", Operation::Stream).is_ok());
    let mut refused = fixture.admit("bob", HERE).unwrap();
    let limited = fixture.call(&mut refused, "bob", Operation::Stream).unwrap_err();
    assert_eq!(&*limited.rule, "all");
    assert_eq!(refused.held.len(), 1, "only the place of `calls`");
    assert_eq!(fixture.keys(), 4, "ann holds three keys, bob the one of `calls`");
    drop((held, refused));
    assert_eq!(fixture.keys(), 0);
}

#[test]
fn keys_are_bounded_and_strangers_share_what_is_beyond() {
    let fixture = limiter(&[rate("calls", LimitKey::Address, 60, 2)], 3);
    for last in 1..=3 {
        assert_eq!(fixture.admitted(ANONYMOUS, v4(last)), 2, "address {last}");
    }
    assert_eq!(fixture.keys(), 3);
    let flood: usize = (4..1000).map(|last| fixture.admitted(ANONYMOUS, v4(last))).sum();
    assert_eq!(flood, 2, "one budget for all of them");
    assert_eq!(fixture.keys(), 3, "the bound holds");
}

#[test]
fn a_flood_of_addresses_leaves_known_addresses_alone() {
    let fixture = limiter(&[rate("calls", LimitKey::Address, 60, 2)], 3);
    assert!(fixture.admit(ANONYMOUS, v4(1)).is_ok());
    for last in 2..1000 {
        let _limited = fixture.admit(ANONYMOUS, v4(last));
    }
    assert_eq!(
        fixture.admitted(ANONYMOUS, v4(1)),
        1,
        "an address with an entry has its own budget"
    );
    assert_eq!(fixture.admitted(ANONYMOUS, v4(2000)), 0, "a stranger has not");
    assert_eq!(
        fixture.admitted("ann", v4(2001)),
        0,
        "an address is judged before its caller is known"
    );
}

#[test]
fn at_the_bound_idle_keys_make_room() {
    let fixture = limiter(&[rate("calls", LimitKey::Address, 60, 2)], 3);
    for last in 1..=3 {
        assert!(fixture.admit(ANONYMOUS, v4(last)).is_ok());
    }
    fixture.clock.advance(Duration::from_secs(10));
    assert_eq!(fixture.admitted(ANONYMOUS, v4(4)), 2);
    assert_eq!(fixture.keys(), 1, "the other three had their full budget");
}

#[test]
fn a_sweep_forgets_only_full_budgets() {
    let fixture = limiter(&[rate("calls", LimitKey::Address, 60, 2)], 10);
    assert!(fixture.admit(ANONYMOUS, v4(1)).is_ok());
    fixture.clock.advance(Duration::from_secs(5));
    assert_eq!(fixture.admitted(ANONYMOUS, v4(2)), 2);
    fixture.limiter.sweep();
    assert_eq!(fixture.keys(), 1);
    assert_eq!(fixture.admitted(ANONYMOUS, v4(2)), 0, "spent stays spent");
    for last in 10..30 {
        let _limited = fixture.admit(ANONYMOUS, v4(last));
    }
    assert_eq!(fixture.keys(), 10);
}

#[test]
fn the_bound_holds_under_concurrent_admissions() {
    let limiter = RateLimiter::build(&[rate("calls", LimitKey::Address, 60, 1)], 100);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let limiter = &limiter;
            scope.spawn(move || {
                for last in 0..500 {
                    let address = v4(thread * 10_000 + last);
                    let _limited = limiter.take(&mut Slot::default(), address, Stage::Address);
                }
            });
        }
    });
    let Bound::Rate(buckets) = &limiter.inner.general[0].bound else {
        panic!("the rule is a rate");
    };
    assert!(buckets.keys() <= 104, "{} keys", buckets.keys());
}

#[test]
fn places_are_counted_exactly_under_concurrent_admissions() {
    let limiter = RateLimiter::build(&[concurrent("calls", LimitKey::Agent, 3)], 10);
    let ann = Arc::from("ann");
    let admit = |slot: &mut Slot| limiter.take(slot, HERE, Stage::Caller(&ann));
    let most = std::sync::atomic::AtomicU32::new(0);
    let now = std::sync::atomic::AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..1000 {
                    let mut slot = Slot::default();
                    if admit(&mut slot).is_ok() {
                        let held = now.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1;
                        most.fetch_max(held, std::sync::atomic::Ordering::SeqCst);
                        now.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                        drop(slot);
                    }
                }
            });
        }
    });
    assert!(most.into_inner() <= 3);
    let slots: Vec<Slot> = (0..3)
        .map(|_| {
            let mut slot = Slot::default();
            admit(&mut slot).unwrap();
            slot
        })
        .collect();
    assert!(admit(&mut Slot::default()).is_err());
    drop(slots);
}

#[test]
fn headers_say_which_rule_and_when() {
    let fixture = limiter(&[rate("per \"caller\"", LimitKey::Principal, 2, 1)], 10);
    assert!(fixture.admit("ann", HERE).is_ok());
    fixture.clock.advance(Duration::from_millis(18_500));
    let limited = fixture.admit("ann", HERE).unwrap_err();
    assert_eq!(limited.policy_header(), "\"per \\\"caller\\\"\";q=2;w=60");
    assert_eq!(limited.state_header(), "\"per \\\"caller\\\"\";r=0;t=12");
    assert_eq!(limited.retry_after_header(), "12");

    let fixture = limiter(&[concurrent("at-once", LimitKey::Agent, 1)], 10);
    let _held = fixture.admit("ann", HERE).unwrap();
    let limited = fixture.admit("ann", HERE).unwrap_err();
    assert_eq!(limited.policy_header(), "\"at-once\";q=1;qu=\"concurrent-requests\"");
    assert_eq!(limited.state_header(), "\"at-once\";r=0");
    assert_eq!(limited.retry_after_header(), "1");
}

#[tokio::test(start_paused = true)]
async fn the_sweeper_sweeps_and_ends_with_its_limiter() {
    let fixture = limiter(&[rate("calls", LimitKey::Address, 60, 2)], 10);
    assert!(fixture.admit(ANONYMOUS, v4(1)).is_ok());
    let drain = Drain::new();
    fixture.limiter.start(&drain);
    fixture.clock.advance(SWEEP);
    tokio::time::sleep(SWEEP + Duration::from_secs(1)).await;
    assert_eq!(fixture.keys(), 0);
    let inner = Arc::downgrade(&fixture.limiter.inner);
    drop(fixture);
    assert!(inner.upgrade().is_none(), "the job holds no limiter");
}

fn bytes(per: LimitKey, bytes: u64, direction: Direction) -> RateLimit {
    RateLimit {
        bound: LimitBound::Bytes {
            bytes,
            period: Duration::from_secs(60),
            direction,
        },
        ..rate("bytes", per, 1, 1)
    }
}

#[test]
fn bytes_beyond_the_budget_are_owed_and_come_back_at_its_pace() {
    let fixture = limiter(&[bytes(LimitKey::Principal, 6000, Direction::In)], 10);
    let slot = fixture.admit("ann", HERE).expect("nothing is owed");
    slot.charge(Direction::Out, 1_000_000);
    slot.charge(Direction::In, 5999);
    let slot = fixture.admit("ann", HERE).expect("a byte is left");
    slot.charge(Direction::In, 1);
    let limited = fixture.admit("ann", HERE).unwrap_err();
    assert_eq!((limited.kind, limited.limit), (Kind::BytesIn, 6000));
    assert_eq!(
        limited.policy_header(),
        "\"bytes\";q=6000;qu=\"content-bytes\";w=60",
        "draft-ietf-httpapi-ratelimit-headers-10"
    );
    assert!(fixture.admit("bob", HERE).is_ok(), "bob has a budget of his own");
    fixture.clock.advance(Duration::from_millis(10));
    let slot = fixture.admit("ann", HERE).expect("a byte came back");
    slot.charge(Direction::In, 12_000);
    let wait = fixture.admit("ann", HERE).unwrap_err().retry_after;
    assert_eq!(wait, Duration::from_secs(120), "what was too much is owed");
    fixture.clock.advance(Duration::from_millis(119_990));
    assert!(fixture.admit("ann", HERE).is_err());
    fixture.clock.advance(Duration::from_millis(10));
    assert!(fixture.admit("ann", HERE).is_ok());
    assert_eq!(fixture.keys(), 1, "who moved nothing is not remembered");
    fixture.clock.advance(Duration::from_secs(60));
    fixture.limiter.sweep();
    assert_eq!(fixture.keys(), 0, "nor who owes nothing");
}

#[test]
fn small_charges_lose_no_part_of_a_byte() {
    let fixture = limiter(&[bytes(LimitKey::Agent, 7, Direction::Out)], 10);
    let slot = fixture.admit("ann", HERE).unwrap();
    for _ in 0..1000 {
        slot.charge(Direction::Out, 1);
        fixture.clock.advance(Duration::from_nanos(3));
    }
    let wait = fixture.admit("ann", HERE).unwrap_err().retry_after;
    assert_eq!(wait, Duration::from_secs(993 * 60 / 7 + 1));
}

#[test]
fn at_the_bound_of_keys_debts_are_shared_and_those_known_keep_their_own() {
    let fixture = limiter(&[bytes(LimitKey::Principal, 100, Direction::In)], 1);
    let ann = fixture.admit("ann", HERE).unwrap();
    ann.charge(Direction::In, 1);
    let bob = fixture.admit("bob", HERE).unwrap();
    bob.charge(Direction::In, 100);
    assert!(fixture.admit("bob", HERE).is_err(), "his bytes are not forgotten");
    assert!(fixture.admit("ann", HERE).is_ok());
    let stranger = fixture.admit(ANONYMOUS, HERE).expect("a debt of its own");
    stranger.charge(Direction::In, 100);
    assert!(fixture.admit(ANONYMOUS, v4(7)).is_err(), "strangers share one");
    assert_eq!(fixture.keys(), 1);
}

fn open_tasks(name: &str, per: LimitKey, limit: u32) -> RateLimit {
    RateLimit {
        bound: LimitBound::OpenTasks(limit),
        ..rate(name, per, 1, 1)
    }
}

fn creations(per: LimitKey, count: u32) -> RateLimit {
    RateLimit {
        bound: LimitBound::Rate {
            count,
            period: Duration::from_secs(60),
            burst: count,
            of: RateOf::TaskCreations,
        },
        ..rate("creations", per, 1, 1)
    }
}

fn begin(fixture: &Fixture, open: &Arc<OpenTasks>, owner: &str) -> Result<Slot, Limited> {
    let (owner, agent) = (Arc::from(owner), Arc::from("maps"));
    let beginning = Beginning {
        open,
        agent: &agent,
        owner: &owner,
    };
    let mut slot = Slot::default();
    fixture.limiter.take(&mut slot, HERE, Stage::Begin(&owner, beginning))?;
    Ok(slot)
}

#[test]
fn open_tasks_and_sends_that_may_begin_one_count_together() {
    let rules = [
        open_tasks("all", LimitKey::Agent, 3),
        open_tasks("own", LimitKey::Principal, 2),
    ];
    let (fixture, open) = (limiter(&rules, 10), Arc::<OpenTasks>::default());
    let [maps, ann, bob] = ["maps", "ann", "bob"].map(Arc::<str>::from);
    open.opened(&maps, &ann, "t");
    open.opened(&Arc::from("another"), &ann, "t");
    let place = begin(&fixture, &open, "ann").expect("the last place of ann");
    let limited = begin(&fixture, &open, "ann").unwrap_err();
    assert_eq!(
        (&*limited.rule, limited.kind, limited.limit),
        ("own", Kind::OpenTasks, 2)
    );
    assert_eq!(limited.policy_header(), "\"own\";q=2;qu=\"open-tasks\"");
    assert_eq!(limited.state_header(), "\"own\";r=0");
    assert_eq!(limited.retry_after, TASKS_TRY_AGAIN);
    drop(place);
    let place = begin(&fixture, &open, "ann").expect("it was given back");
    open.opened(&maps, &bob, "t");
    assert_eq!(&*begin(&fixture, &open, "bob").unwrap_err().rule, "all");
    open.closed("maps", "ann", "t");
    assert!(begin(&fixture, &open, "bob").is_ok(), "a task has ended");
    drop(place);
    open.closed("maps", "bob", "t");
    open.closed("another", "ann", "t");
    assert_eq!(open.keys(), 0, "nobody has anything");
}

#[test]
fn of_sends_at_once_one_gets_the_last_place() {
    let fixture = limiter(&[open_tasks("own", LimitKey::Principal, 3)], 10);
    let open = Arc::<OpenTasks>::default();
    for _ in 0..50 {
        let start = std::sync::Barrier::new(8);
        let admitted: Vec<Slot> = std::thread::scope(|scope| {
            let send = || {
                start.wait();
                begin(&fixture, &open, "ann").ok()
            };
            let sends: Vec<_> = (0..8).map(|_| scope.spawn(send)).collect();
            sends.into_iter().filter_map(|send| send.join().unwrap()).collect()
        });
        assert_eq!(admitted.len(), 3);
    }
    assert_eq!(open.keys(), 0);
}

#[test]
fn whoever_has_too_many_tasks_spends_nothing_of_what_all_may_begin() {
    let rules = [creations(LimitKey::Agent, 4), open_tasks("own", LimitKey::Principal, 1)];
    let (fixture, open) = (limiter(&rules, 10), Arc::<OpenTasks>::default());
    open.opened(&Arc::from("maps"), &Arc::from("ann"), "t");
    assert!((0..20).all(|_| begin(&fixture, &open, "ann").is_err()));
    let begun = (0..20).take_while(|_| begin(&fixture, &open, "bob").is_ok()).count();
    assert_eq!(begun, 4);
    let limited = begin(&fixture, &open, "bob").unwrap_err();
    assert_eq!(limited.kind, Kind::TaskCreations);
    let mut slot = fixture.admit("bob", HERE).expect("other calls go on");
    assert!(
        fixture.call(&mut slot, "bob", Operation::Send).is_ok(),
        "to a task that is"
    );
}
