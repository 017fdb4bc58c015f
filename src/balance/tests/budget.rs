//! The retry budget over time.

use super::*;

#[test]
fn a_share_of_the_calls_and_a_floor() {
    let check = |percent: u32, calls: u32, granted: u32| {
        let budget = RetryBudget::new(percent);
        let now = Instant::now() + seconds(100);
        (0..calls).for_each(|_| budget.called(now));
        let allowed = (0..1000).filter(|_| budget.retry(now)).count();
        assert_eq!(allowed, granted as usize, "{percent} % of {calls}");
    };
    check(20, 0, 30);
    check(20, 4, 30);
    check(20, 5, 31);
    check(20, 1000, 230);
    check(0, 1000, 30);
    check(100, 50, 80);
}

#[test]
fn only_the_last_ten_seconds_count() {
    let budget = RetryBudget::new(20);
    let start = Instant::now();
    let at = |second| start + seconds(second);
    (0..500).for_each(|_| budget.called(at(0)));
    assert_eq!((0..1000).filter(|_| budget.retry(at(9))).count(), 130);
    assert!(!budget.retry(at(9)));
    // The calls are forgotten, the retries are not: 30 of the 130 would be the floor.
    assert!(!budget.retry(at(10)));
    assert!(!budget.retry(at(18)));
    assert_eq!((0..1000).filter(|_| budget.retry(at(19))).count(), 30);
    // A cell that is used again begins anew.
    budget.called(at(11 * 5));
    assert_eq!((0..1000).filter(|_| budget.retry(at(11 * 5))).count(), 30);
}

#[test]
fn reads_that_break_off_leave_half_to_what_no_caller_can_cause() {
    let budget = RetryBudget::new(20);
    let now = Instant::now() + seconds(100);
    (0..100).for_each(|_| budget.called(now));
    assert_eq!((0..1000).filter(|_| budget.repeat(now)).count(), 25);
    assert_eq!((0..1000).filter(|_| budget.retry(now)).count(), 25);
    assert!(!budget.repeat(now));
}
