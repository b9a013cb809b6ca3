//! The line of waiters, the queue and the channels under schedules by chance, and under those that most often find a
//! fault (few preemptions).

/// `LOCKSON_SOAK=1` tries a hundred times as many.
fn check(play: fn(), few: usize) {
    let all = if std::env::var_os("LOCKSON_SOAK").is_some() { 100 * few } else { few };
    shuttle::check_random(play, 2 * all);
    shuttle::check_pct(play, all, 3);
}

#[test]
fn a_row_loses_no_permit_and_forgets_nobody() {
    check(lockson_cores::play::row, 1000);
}

#[test]
fn turns_lose_no_lock_and_forget_nobody() {
    check(lockson_cores::play::turns, 1000);
}

#[test]
fn whoever_listens_is_told_of_a_message_or_a_gap() {
    check(lockson_cores::listeners::one_hears, 500);
}

#[test]
fn all_who_listen_hear_what_is_for_all() {
    check(lockson_cores::listeners::all_hear, 500);
}

#[test]
fn the_first_listeners_make_one_subscription_and_the_last_ends_it() {
    check(lockson_cores::listeners::one_subscription, 500);
}

#[test]
fn a_refusal_is_told_and_so_is_its_end() {
    check(lockson_cores::listeners::refused, 500);
}

#[test]
fn nobody_waits_for_a_confirmation_behind_the_end() {
    check(lockson_cores::listeners::nobody_waits_behind_the_end, 500);
}

#[test]
fn a_crowd_forgets_nobody() {
    check(lockson_cores::queue::crowd, 500);
}

#[test]
fn a_server_hears_once_of_each_who_is_due() {
    check(lockson_cores::queue::batches, 100);
}

#[test]
fn the_end_ends_each_wait_once() {
    check(lockson_cores::queue::closing, 500);
}
