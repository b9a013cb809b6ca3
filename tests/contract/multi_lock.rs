//! What a multi-lock adds (rule 20). Its members are of three kinds, and given in another order than they are taken in.

use lockson::kind::Fencing;

use crate::contract::world::*;

pub fn make(locks: &Locks, name: &str) -> MultiLock {
    let last = locks.fair_lock(&format!("{name}:z"));
    let middle = locks.fenced_lock(&format!("{name}:m"));
    MultiLock::new(vec![Arc::new(last) as Arc<dyn RLock>, Arc::new(locks.lock(name)), Arc::new(middle)])
}

async fn held(case: &Case) -> String {
    let mut held = String::new();
    for key in case.members() {
        held.push_str(&case.ask(&["EXISTS", &key]).await);
    }
    held
}

/// Awaits that just these keys are there.
async fn until_held(case: &Case, wanted: &str) {
    eventually(secs(20), &format!("the keys are {wanted}"), async || held(case).await == wanted).await;
}

pub async fn all_members_or_none(case: Case) {
    let (a, b) = (case.client().await, case.client().await);
    let (multi, last) = (case.lock(&a), b.fair_lock(&case.members()[2]));
    let rival = last.guard().await.unwrap();
    let [first, middle, last] = case.members();
    assert_eq!(multi.name(), format!("{last} + {first} + {middle}"));
    assert!(!multi.try_lock().await.unwrap().is_acquired());
    until_held(&case, "001").await;
    assert!(!multi.acquire_with(Request::default().wait(ms(150))).await.unwrap().is_acquired());
    until_held(&case, "001").await;
    // What fails gives back too.
    case.ask(&["SET", &case.members()[1], "mine"]).await;
    assert_matches!(multi.lock().await, Err(LockError::Query(QueryError::WrongType { name, .. })) if name == middle);
    until_held(&case, "011").await;
    case.ask(&["DEL", &case.members()[1]]).await;
    rival.unlock().await.unwrap();
    multi.lock().await.unwrap();
    assert_eq!(held(&case).await, "111");
    multi.unlock().await.unwrap();
    assert_eq!(held(&case).await, "000");
    assert!(matches!(multi.unlock().await, Err(UnlockError::NotHeld { name, .. }) if name == multi.name()));
}

/// Whatever order the members are given in.
pub async fn the_order_is_everybodys(case: Case) {
    let (a, b) = (case.client().await, case.client().await);
    let [first, middle, last] = case.members();
    let orders = [[&first, &middle, &last], [&last, &middle, &first], [&middle, &last, &first]];
    for order in orders {
        let locks = order.map(|key| Arc::new(a.lock(key)) as Arc<dyn RLock>);
        let multi = MultiLock::new(locks.to_vec());
        for (at, (key, so_far)) in [(&first, "100"), (&middle, "110"), (&last, "111")].into_iter().enumerate() {
            let rival = b.lock(key).guard().await.unwrap();
            let waiter = spawn_with(multi.clone(), |multi| async move { multi.guard().await });
            // It waits for this one, with those before it and none of those behind it.
            until_held(&case, so_far).await;
            case.until_waiting(&a).await;
            assert_eq!(held(&case).await, so_far, "the {at}th of {order:?}");
            rival.unlock().await.unwrap();
            patient("all are free", waiter).await.unwrap().unwrap().unlock().await.unwrap();
            assert_eq!(held(&case).await, "000");
        }
    }
}

pub async fn a_lock_that_is_given_twice_is_taken_once(case: Case) {
    let locks = case.client().await;
    let lock = locks.lock(&case.name);
    let twice = MultiLock::new(vec![
        Arc::new(lock.clone()) as Arc<dyn RLock>,
        Arc::new(locks.lock(&case.name)),
        case.lock(&locks),
    ]);
    twice.lock().await.unwrap();
    assert_eq!(lock.hold_count().await.unwrap(), 1);
    assert!(twice.is_held().await.unwrap());
    twice.unlock().await.unwrap();
    assert_eq!(held(&case).await, "000");
    // A mutex of that name is the same lock, and would refuse its own owner.
    let same = MultiLock::new(vec![Arc::new(locks.mutex(&case.name)) as Arc<dyn RLock>, Arc::new(lock.clone())]);
    let guard = same.guard().await.unwrap();
    assert_eq!(lock.hold_count().await.unwrap(), 1);
    guard.unlock().await.unwrap();
}

pub async fn multi_locks_nest(case: Case) {
    let (a, b) = (case.client().await, case.client().await);
    let outer = MultiLock::new(vec![case.lock(&a), Arc::new(a.lock(&format!("{}:a", case.name)))]);
    let outermost: Arc<dyn RLock> =
        Arc::new(MultiLock::new(vec![Arc::new(outer.clone()) as Arc<dyn RLock>, case.lock(&a)]));
    let guard = outermost.guard().await.unwrap();
    assert_eq!(held(&case).await, "111");
    for key in case.members().iter().chain([&format!("{}:a", case.name)]) {
        assert!(!b.lock(key).try_lock().await.unwrap().is_acquired(), "{key}");
    }
    guard.verify().await.unwrap();
    guard.unlock().await.unwrap();
    assert_eq!(held(&case).await, "000");
    outer.lock().await.unwrap();
    outermost.unlock().await.unwrap();
    assert_eq!(held(&case).await, "000");
}

/// Write before read, as the other way round is an upgrade.
pub async fn both_sides_of_one_read_write_lock(case: Case) {
    let (a, b) = (case.client().await, case.client().await);
    let both = a.read_write_lock(&case.name);
    let multi = MultiLock::new(vec![Arc::new(both.read()) as Arc<dyn RLock>, Arc::new(both.write())]);
    let guard = multi.guard().await.unwrap();
    assert!(both.read().is_held().await.unwrap() && both.write().is_held().await.unwrap());
    assert!(!b.read_write_lock(&case.name).read().try_lock().await.unwrap().is_acquired());
    guard.unlock().await.unwrap();
    assert!(case.is_free().await);
}

pub async fn members_that_keep_each_other_out_are_refused(case: Case) {
    let locks = case.client().await;
    let lock = locks.lock(&case.name);
    let other = lock.owned_by(&Owner::unique());
    let side = locks.read_write_lock(&case.name).read();
    let pairs: [Vec<Arc<dyn RLock>>; 2] =
        [vec![Arc::new(lock.clone()), Arc::new(other)], vec![Arc::new(side), Arc::new(lock.clone())]];
    for pair in pairs {
        let multi = MultiLock::new(pair);
        assert!(matches!(multi.lock().await, Err(LockError::Members(_))));
        assert!(matches!(multi.try_lock().await, Err(LockError::Members(_))));
        assert!(case.is_free().await);
    }
}

pub async fn no_members(_: Case) {
    let red = lockson::RedLock::<lockson::kind::Reentrant>::new(Vec::new());
    for none in [Arc::new(MultiLock::new(Vec::<Arc<dyn RLock>>::new())) as Arc<dyn RLock>, Arc::new(red)] {
        assert!(matches!(none.lock().await, Err(LockError::Members(_))));
        assert!(matches!(none.guard().await, Err(LockError::Members(_))));
        assert!(matches!(none.unlock().await, Err(UnlockError::NotHeld { .. })));
        assert!(!none.is_held().await.unwrap());
    }
}

pub async fn a_mutex_member_is_not_entered_again(case: Case) {
    let locks = case.client().await;
    let [first, middle, _] = case.members();
    let (reentrant, mutex) = (locks.lock(&first), locks.mutex(&middle));
    let multi = MultiLock::new(vec![Arc::new(mutex.clone()) as Arc<dyn RLock>, Arc::new(reentrant.clone())]);
    let guard = multi.guard().await.unwrap();
    assert_matches!(multi.guard().await, Err(LockError::AlreadyHeld { name, .. }) if name == middle);
    // The entry into the member before it is given back, and no more than that.
    eventually(secs(20), "the inner entry goes", async || reentrant.hold_count().await.unwrap() == 1).await;
    guard.verify().await.unwrap();
    guard.unlock().await.unwrap();
    assert_eq!(held(&case).await, "000");
}

/// Not one a member: the limit ends while the second busy member is waited for.
pub async fn one_wait_limit_for_all(case: Case) {
    let (a, b) = (case.client().await, case.client().await);
    let [first, middle, _] = case.members();
    let (one, two) = (b.lock(&first).guard().await.unwrap(), b.lock(&middle).guard().await.unwrap());
    let began = Instant::now();
    let waiter =
        spawn_with(case.lock(&a), |multi| async move { multi.guard_with(Request::default().wait(ms(900))).await });
    sleep(ms(500)).await;
    one.unlock().await.unwrap();
    assert!(patient("the limit comes", waiter).await.unwrap().unwrap().is_none());
    if matches!(case.world, crate::contract::world::World::Embedded(_)) {
        // On paused time: just then.
        assert!(began.elapsed() < ms(950), "{:?}", began.elapsed());
    }
    two.unlock().await.unwrap();
    until_held(&case, "000").await;
}

/// The first member waits for the last for longer than the lease, and has all of it in the end.
pub async fn a_lease_begins_when_all_are_held(case: Case) {
    let builder = || Locks::builder().command_timeout(ms(300)).watchdog_lease(secs(3));
    let (a, b) = (case.client_with(builder()).await, case.client().await);
    let rival = b.fair_lock(&case.members()[2]).guard().await.unwrap();
    let waiter =
        spawn_with(case.lock(&a), |multi| async move { multi.guard_with(Request::default().lease(ms(1500))).await });
    until_held(&case, "111").await;
    sleep(ms(2500)).await;
    rival.unlock().await.unwrap();
    let guard = patient("the last is free", waiter).await.unwrap().unwrap().unwrap();
    for key in case.members() {
        let ttl = case.pttl_of(&key).await;
        assert!((1..=1500).contains(&ttl), "{key}: {ttl}");
    }
    assert!(guard.remaining() <= ms(1485) && guard.is_valid());
    assert_eq!(patient("it is not renewed", guard.lost()).await.why, LostReason::Deadline);
    until_held(&case, "000").await;
}

pub async fn an_outer_lease_is_not_shortened(case: Case) {
    let locks = case.client().await;
    let lock = locks.lock(&case.name);
    let outer = lock.acquire().lease(secs(600)).guard().await.unwrap().unwrap();
    let members: Vec<Arc<dyn RLock>> = vec![Arc::new(lock.clone()), Arc::new(locks.lock(&case.members()[1]))];
    let guard = MultiLock::new(members).acquire().lease(secs(20)).guard().await.unwrap().unwrap();
    assert!(case.pttl().await > 590_000 && outer.remaining() > secs(590));
    assert!(guard.remaining() <= secs(20));
    guard.unlock().await.unwrap();
    assert!(case.pttl().await > 590_000);
    outer.unlock().await.unwrap();
}

/// Whichever it is. Rule 11: a multi-lock's limit is its own, and so is that of the hold which a member of it enters.
pub async fn limits_are_of_their_shares(case: Case) {
    let locks = case.client_with(Locks::builder().command_timeout(ms(300)).watchdog_lease(secs(1))).await;
    let (member, multi) = (locks.lock(&case.name), case.lock(&locks));
    let outer = member.guard().await.unwrap();
    let limited = multi.guard_with(Request::default().max_hold(ms(300))).await.unwrap().unwrap();
    patient("two of its members are in no outer hold", limited.lost()).await;
    sleep(secs(2)).await;
    assert!(outer.is_valid());
    drop(limited);
    outer.unlock().await.unwrap();
    let outer = member.acquire().max_hold(ms(600)).guard().await.unwrap().unwrap();
    let whole = multi.guard().await.unwrap();
    sleep(secs(3)).await;
    assert!(whole.is_valid() && outer.is_valid());
    whole.unlock().await.unwrap();
    patient("nobody renews it", outer.lost()).await;
}

pub async fn one_lost_member_loses_the_guard(case: Case) {
    let locks = case.client_with(Locks::builder().command_timeout(ms(300)).watchdog_lease(secs(3))).await;
    for key in case.members() {
        let guard = case.lock(&locks).guard().await.unwrap();
        assert_eq!(guard.state(), HoldState::Held);
        case.ask(&["DEL", &key]).await;
        let lost = patient("one member is lost", guard.lost()).await;
        assert!(!guard.is_valid());
        assert_eq!((lost.why, guard.state(), guard.remaining()), (LostReason::Server, HoldState::Lost, Duration::ZERO));
        assert_eq!(held(&case).await.matches('1').count(), 2, "the others protect what they stand for");
        assert_eq!(guard.run(std::future::pending::<()>()).await.unwrap_err().why, LostReason::Server);
        assert!(matches!(guard.verify().await, Err(HoldError::Lost(_))));
        assert_matches!(guard.unlock().await, Err(UnlockError::NotHeld { name, .. }) if name == key);
        assert_eq!(held(&case).await, "000");
    }
}

/// Each error is told, and no member is left out for it.
pub async fn one_lost_member_keeps_nothing_else_locked(case: Case) {
    let locks = case.client().await;
    let (multi, [first, middle, last]) = (case.lock(&locks), case.members());
    for guarded in [true, false] {
        let guard = if guarded { Some(multi.guard().await.unwrap()) } else { None };
        if !guarded {
            multi.lock().await.unwrap();
        }
        case.ask(&["DEL", &first]).await;
        case.ask(&["DEL", &last]).await;
        let error = match guard {
            Some(guard) => guard.unlock().await.unwrap_err(),
            None => multi.unlock().await.unwrap_err(),
        };
        let UnlockError::Several(errors) = &error else { panic!("{error:?}") };
        let names: Vec<&str> = errors
            .iter()
            .map(|error| match error {
                UnlockError::NotHeld { name, .. } => name.as_str(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(names, [&last, &first]);
        assert!(!error.may_hold() && error.to_string().contains(&*last));
        assert_eq!(case.ask(&["EXISTS", &middle]).await, "0");
    }
}

/// It starts again, and comes out with all of them; but what the caller held before is not taken again in silence.
pub async fn a_member_that_is_lost_while_others_are_waited_for(case: Case) {
    let builder = Locks::builder().command_timeout(ms(300)).watchdog_lease(secs(3));
    let (a, b) = (case.client_with(builder).await, case.client().await);
    let ([first, _, last], owner) = (case.members(), Owner::named("me").unwrap());
    for is_held_before in [false, true] {
        let outer = a.lock(&first).owned_by(&owner);
        let outer = if is_held_before { Some(outer.guard().await.unwrap()) } else { None };
        let rival = b.fair_lock(&last).guard().await.unwrap();
        let waiter = spawn_with(case.lock(&a).owned_by(&owner), |multi| async move { multi.guard().await });
        until_held(&case, "111").await;
        let field = case.ask(&["HKEYS", &first]).await;
        case.ask(&["DEL", &first]).await;
        if let Some(outer) = outer {
            let seen = patient("the loss is seen", waiter).await.unwrap();
            assert_matches!(seen, Err(LockError::Lost { name, owner: loser }) if (&name, &loser) == (&first, &owner));
            assert!(!outer.is_valid());
            until_held(&case, "001").await;
            rival.unlock().await.unwrap();
            return;
        }
        let theft = b.lock(&first).owned_by(&Owner::named("thief").unwrap());
        theft.lock().await.unwrap();
        // The second is given back as soon as the loss of the first is known, and the first is waited for again.
        until_held(&case, "101").await;
        rival.unlock().await.unwrap();
        assert!(!waiter.is_finished());
        theft.unlock().await.unwrap();
        let guard = patient("it starts again", waiter).await.unwrap().unwrap();
        assert_eq!(case.ask(&["HKEYS", &first]).await, field);
        guard.verify().await.unwrap();
        guard.unlock().await.unwrap();
        assert_eq!(held(&case).await, "000");
    }
}

pub async fn every_member_has_a_token_of_its_own(case: Case) {
    let (a, b) = (case.client().await, case.client().await);
    let [lock, write, fair] = ["lock", "write", "fair"].map(|of| format!("{}:{of}", case.name));
    let of = |locks: &Locks| {
        let inner = MultiLock::fenced([locks.lock(&lock).fenced(), locks.fenced_lock(&lock)]);
        let members: Vec<Arc<dyn Fencing>> = vec![
            locks.read_write_lock(&write).write().fenced().into(),
            inner.into(),
            locks.fair_lock(&fair).fenced().into(),
        ];
        MultiLock::fenced(members)
    };
    let (mine, theirs) = (of(&a), of(&b));
    let stored = async |name: &str| case.ask(&["GET", &format!("redisson_lock_token:{{{name}}}")]).await;
    let guard = mine.guard().await.unwrap();
    let first: Vec<(String, u64)> = guard.tokens().map(|(name, token)| (name.to_owned(), token)).collect();
    let names: Vec<&str> = first.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, [&*fair, &*lock, &*write], "each once, in everybody's order");
    for (name, token) in &first {
        assert_eq!(stored(name).await, token.to_string());
    }
    assert!(theirs.acquire().wait(ms(50)).guard().await.unwrap().is_none());
    // What is written under a member is written while that one is held.
    let state = format!("{{{write}}}:state");
    for member in guard.members().filter(|member| member.name() == write) {
        member.run_if_held("return redis.call('SET', KEYS[1], token)", &[&state], &[]).await.unwrap();
        assert_eq!(case.ask(&["GET", &state]).await, member.token().to_string());
        case.ask(&["DEL", &write]).await;
        let lost = member.run_if_held("return redis.call('SET', KEYS[1], 'late')", &[&state], &[]).await;
        assert!(matches!(lost, Err(RunError::Lost(_))), "{lost:?}");
    }
    assert_eq!(guard.state(), HoldState::Lost);
    drop(guard);
    let next = patient("the next", theirs.guard()).await.unwrap();
    for ((name, token), (_, before)) in next.tokens().zip(&first) {
        assert!(token > *before, "{name}");
    }
    next.unlock().await.unwrap();
}
