//! The line of waiters under schedules by chance, and under those that most often find a fault (few preemptions).

/// `LOCKSON_SOAK=1` tries a hundred times as many.
fn schedules(few: usize) -> usize {
    if std::env::var_os("LOCKSON_SOAK").is_some() {
        100 * few
    } else {
        few
    }
}

#[test]
fn a_row_loses_no_permit_and_forgets_nobody() {
    shuttle::check_random(lockson_cores::play::row, schedules(2000));
    shuttle::check_pct(lockson_cores::play::row, schedules(1000), 3);
}

#[test]
fn turns_lose_no_lock_and_forget_nobody() {
    shuttle::check_random(lockson_cores::play::turns, schedules(2000));
    shuttle::check_pct(lockson_cores::play::turns, schedules(1000), 3);
}
