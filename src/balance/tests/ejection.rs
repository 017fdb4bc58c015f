//! What ejects, and for how long.

use super::super::ejection::{Backoff, Run, Verdict};
use super::*;

const ENOUGH: u32 = 5;

fn last(faults: &[(Fault, u64)]) -> Verdict {
    let mut run = Run::default();
    let verdicts = faults.iter().map(|(fault, caller)| run.add(*fault, *caller, ENOUGH));
    verdicts.last().expect("a fault")
}

#[test]
fn it_takes_more_than_one_caller_unless_no_connection_can_be_made() {
    use Fault::{Answer, Closed, Connect, Stream};
    let check = |faults: &[(Fault, u64)], expected: Verdict| assert_eq!(last(faults), expected, "{faults:?}");
    check(&[(Connect, 1); 4], Verdict::Go);
    check(&[(Connect, 1); 5], Verdict::Eject { dead: true });
    check(&[(Answer, 1); 4], Verdict::Go);
    check(&[(Answer, 1); 5], Verdict::Doubt);
    check(&[(Closed, 1); 50], Verdict::Doubt);
    check(&[(Stream, 1); 50], Verdict::Go);
    check(
        &[(Answer, 1), (Answer, 1), (Answer, 1), (Answer, 2), (Closed, 2)],
        Verdict::Eject { dead: false },
    );
    // One caller that fails much and one that fails once.
    check(
        &[(Answer, 1), (Answer, 1), (Answer, 1), (Answer, 1), (Answer, 2)],
        Verdict::Doubt,
    );
    check(
        &[(Answer, 1), (Answer, 1), (Answer, 1), (Connect, 9), (Connect, 9)],
        Verdict::Eject { dead: false },
    );
    let each: Vec<_> = (0..5).map(|caller| (Answer, caller)).collect();
    check(&each, Verdict::Eject { dead: false });
}

#[test]
fn one_failure_that_a_caller_can_make_is_never_enough() {
    let mut run = Run::default();
    assert_eq!(run.add(Fault::Answer, 1, 1), Verdict::Doubt);
    assert_eq!(run.add(Fault::Connect, 1, 1), Verdict::Eject { dead: true });
}

#[test]
fn each_time_doubles_up_to_the_longest_and_quiet_takes_it_back() {
    let config = balancing(Balance::LeastRequest).ejection.expect("on");
    let mut backoff = Backoff::default();
    let mut now = seconds(0);
    for expected in [10, 20, 40, 80, 160, 300, 300] {
        let time = backoff.next(&config, now);
        assert_eq!(time, seconds(expected));
        now += time;
    }
    // As long as the last time, twice: from 300 (2^5) to 80 (2^3).
    now += seconds(600);
    assert_eq!(backoff.next(&config, now), seconds(80));
    now += seconds(80 + 80 * 10);
    assert_eq!(backoff.next(&config, now), seconds(10));
    // Back before its time: quiet begins then.
    backoff.ended(now);
    assert_eq!(backoff.next(&config, now + seconds(9)), seconds(20));
    assert_eq!(backoff.next(&config, now + seconds(10_000)), seconds(10));
}
