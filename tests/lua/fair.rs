//! The fair lock's scripts: its holder and its queue.

crate::lua::stories! {
    it_is_taken_once {
        "fair/acquire k q t s f / a:1 5000 0 1 -> 1 | k{a:1=1}/5000"
        "wait 1000"
        "fair/acquire k q t s f / a:1 5000 0 1 -> 1 | k{a:1=1}/5000"
        "fair/acquire k q t s f / a:1 3000 0 1 -> 1"
        "fair/acquire k q t s f / a:1 3000 1 1 -> 1 | k{a:1=2}/5000"
        "fair/acquire k q t s f / a:1 9000 2 1 -> 1 | k{a:1=3}/9000"
        "fair/acquire k q t s f / a:1 9000 1 1 -> 5 3"
        "fair/acquire k q t s f / a:1 9000 4 1 -> 5 3"
        "fair/acquire k q t s f / b:1 9000 1 1 -> 3"
        "fair/acquire k q t s f / b:1 9000 0 0 -> 0 9000"
    }
    a_waiter_whose_lease_is_refused_lives {
        "wait 0"
        "RPUSH q a:1"
        "ZADD t now+300000 a:1"
        "fair/acquire k q t s f / a:1 1e30 0 1 -> 6 ERR value is not an integer*"
        "ZADD s now-5000 a now-5000 a:1"
        "fair/acquire k q t s f / a:1 1e30 0 1 -> 6 ERR value is not an integer* | \
         q[a:1] s(a:now a:1:now) t(a:1:now+300000)"
    }
    a_refused_lease_takes_nothing {
        "fair/acquire k q t s f / a:1 1e30 0 1 -> 6 ERR value is not an integer* | "
        "HSET k a:1 1"
        "PEXPIRE k 500"
        "fair/acquire k q t s f / a:1 1e30 1 1 -> 6 ERR value is not an integer*"
    }
    a_refused_lease_of_a_copy_leaves_the_count {
        "HSET k a:1 2"
        "PEXPIRE k 500"
        "fair/acquire k q t s f / a:1 1e30 1 1 -> 6 ERR value is not an integer*"
    }
    who_enters_again_is_in_the_queue_no_more {
        "HSET k a:1 1"
        "RPUSH q a:1"
        "fair/acquire k q t s f / a:1 5000 1 1 -> 1 | k{a:1=2}/5000"
        "RPUSH q b:1 a:1"
        "fair/acquire k q t s f / a:1 5000 2 1 -> 1 | k{a:1=3}/5000 q[b:1 a:1]"
        "ZADD t now+5000 b:1 now+9000 a:1"
        "fair/acquire k q t s f / a:1 5000 3 1 -> 1 | k{a:1=4}/5000 q[b:1] t(b:1:now+5000)"
    }
    a_pass_over_a_queue_that_became_shorter_ends_with_it {
        "RPUSH q a:1 b:1 d:1"
        "ZADD t now+300000 a:1 now+1500001 b:1 now+1500002 d:1"
        "HSET f debt 5 pass 300"
        "wait 0"
        "fair/acquire k q t s f / a:1 5000 0 1 -> 1 | f{debt=5 pass=0}/60000 k{a:1=1}/5000 q[b:1 d:1] \
         t(b:1:now+300000 d:1:now+600000)"
    }
    a_queue_that_is_there_keeps_its_state {
        "HSET k a:1 1"
        "PEXPIRE k 5000"
        "RPUSH q b:1"
        "ZADD t now+300000 b:1"
        "HSET f pass 5"
        "fair/acquire k q t s f / c:1 5000 0 1 -> 0 5000 now+600000 1 | f{ends=now+87000000 kept=now pass=5}/60000 \
         k{a:1=1}/5000 q[b:1 c:1]/87000000 s(c:now c:1:now)/60000 t(b:1:now+300000 c:1:now+600000)/87000000"
    }
    who_joins_stands_behind_the_last {
        "HSET k a:1 1"
        "PEXPIRE k 5000"
        "RPUSH q b:1 d:1"
        "ZADD t now+300000 b:1 now+7000000 d:1"
        "wait 0"
        "fair/acquire k q t s f / c:1 5000 0 1 -> 0 5000 now+7000001 1 | f{ends=now+93400001 kept=now}/60000 \
         k{a:1=1}/5000 q[b:1 d:1 c:1]/93400001 s(c:now c:1:now)/60000 t(b:1:now+300000 d:1:now+7000000 \
         c:1:now+7000001)/93400001"
    }
    waiters_queue {
        "HSET k a:1 1"
        "PEXPIRE k 5000"
        "fair/acquire k q t s f / b:1 5000 0 1 -> 0 5000 now+300000 1 | f{ends=now+86700000 kept=now}/60000 \
         k{a:1=1}/5000 q[b:1]/86700000 s(b:now b:1:now)/60000 t(b:1:now+300000)/86700000"
        "fair/place k q t s f / b:1 -> 1 1 0"
        "wait 1000"
        "fair/acquire k q t s f / b:1 5000 0 1 -> 0 4000 now+300000 0 | f{ends=now+86699000 kept=now-1000}/59000 \
         k{a:1=1}/4000 q[b:1]/86699000 s(b:now b:1:now)/59000 t(b:1:now+300000)/86699000"
        "fair/acquire k q t s f / b:2 5000 0 1 -> 0 4000 now+600000 1 | f{ends=now+86699000 kept=now-1000}/59000 \
         k{a:1=1}/4000 q[b:1 b:2]/86699000 s(b:now b:1:now b:2:now)/59000 t(b:1:now+300000 b:2:now+600000)/86699000"
        "fair/place k q t s f / b:2 -> 1 2 1"
        "fair/place k q t s f / b:3 -> 1 2 -1"
        "wait 10"
        "fair/acquire k q t s f / b:2 5000 0 1 -> 0 3990 now+600000 0 | f{ends=now+86698990 kept=now-1010}/58990 \
         k{a:1=1}/3990 q[b:1 b:2]/86698990 s(b:1:now-10 b:now b:2:now)/58990 t(b:1:now+300000 \
         b:2:now+600000)/86698990"
    }
    what_was_kept_just_now_is_kept_no_longer {
        "HSET k a:1 1"
        "PEXPIRE k 90000"
        "RPUSH q b:1"
        "PEXPIRE q 1000"
        "ZADD t now+300000 b:1"
        "PEXPIRE t 1000"
        "ZADD s now b now b:1"
        "PEXPIRE s 1000"
        "HSET f kept now ends now+43800000"
        "PEXPIRE f 1000"
        "fair/acquire k q t s f / c:1 5000 0 1 -> 0 90000 now+600000 1 | f{ends=now+43800000 kept=now}/1000 \
         k{a:1=1}/90000 q[b:1 c:1]/1000 s(b:now b:1:now c:now c:1:now)/1000 t(b:1:now+300000 c:1:now+600000)/1000"
    }
    what_ends_half_a_day_behind_the_last_one_is_kept {
        "wait 1"
        "HSET k a:1 1"
        "PEXPIRE k 90000"
        "RPUSH q b:1"
        "PEXPIRE q 1000"
        "ZADD t now+300000 b:1"
        "ZADD s now b now b:1"
        "HSET f kept now ends now+43799999"
        "fair/acquire k q t s f / c:1 5000 0 1 -> 0 90000 now+600000 1 | f{ends=now+87000000 kept=now}/60000 \
         k{a:1=1}/90000 q[b:1 c:1]/87000000 s(b:now b:1:now c:now c:1:now)/60000 \
         t(b:1:now+300000 c:1:now+600000)/87000000"
    }
    what_was_kept_a_third_of_a_minute_ago_is_kept {
        "wait 1"
        "HSET k a:1 1"
        "PEXPIRE k 90000"
        "RPUSH q b:1"
        "ZADD t now+300000 b:1"
        "ZADD s now b now b:1"
        "HSET f kept now-19999 ends now+90000000"
        "fair/acquire k q t s f / b:1 5000 0 1 -> 0 90000 now+300000 0 | f{ends=now+90000000 kept=now-19999} \
         k{a:1=1}/90000 q[b:1] s(b:now b:1:now) t(b:1:now+300000)"
        "HSET f kept now-20000 ends now+90000000"
        "fair/acquire k q t s f / b:1 5000 0 1 -> 0 90000 now+300000 0 | f{ends=now+86700000 kept=now}/60000 \
         k{a:1=1}/90000 q[b:1]/86700000 s(b:now b:1:now)/60000 t(b:1:now+300000)/86700000"
    }
    what_was_kept_ahead_of_the_clock_is_kept {
        "wait 1"
        "HSET k a:1 1"
        "PEXPIRE k 90000"
        "RPUSH q b:1"
        "ZADD t now+300000 b:1"
        "ZADD s now b now b:1"
        "HSET f kept now+1 ends now+90000000"
        "fair/acquire k q t s f / b:1 5000 0 1 -> 0 90000 now+300000 0 | f{ends=now+86700000 kept=now}/60000 \
         k{a:1=1}/90000 q[b:1]/86700000 s(b:now b:1:now)/60000 t(b:1:now+300000)/86700000"
    }
    a_queue_that_is_made_anew_is_kept {
        "HSET k a:1 1"
        "PEXPIRE k 90000"
        "ZADD s now b"
        "HSET f kept now ends now+90000000"
        "fair/acquire k q t s f / b:1 5000 0 1 -> 0 90000 now+300000 1 | f{ends=now+86700000 kept=now}/60000 \
         k{a:1=1}/90000 q[b:1]/86700000 s(b:now b:1:now)/60000 t(b:1:now+300000)/86700000"
    }
    an_acquisition_ends_the_watch_and_keeps_nothing {
        "RPUSH q a:1 b:1"
        "ZADD t now+300000 a:1 now+600000 b:1"
        "ZADD s now a now a:1"
        "HSET f kept now-50000 ends now+90000000 head a:1"
        "PEXPIRE f 1000"
        "fair/acquire k q t s f / a:1 5000 0 1 -> 1 | f{ends=now+90000000 kept=now-50000}/1000 k{a:1=1}/5000 q[b:1] \
         s(a:now) t(b:1:now+600000)"
    }
    a_first_waiter_outlives_a_long_hold {
        "HSET k a:1 1"
        "PEXPIRE k 400000"
        "HSET f debt 5"
        "fair/acquire k q t s f / b:1 5000 0 1 -> 0 400000 now+400000 1 | f{ends=now+86800000 kept=now}/60000 \
         k{a:1=1}/400000 q[b:1]/86800000 s(b:now b:1:now)/60000 t(b:1:now+400000)/86800000"
    }
    a_score_that_is_late_is_no_floor {
        "HSET k a:1 1"
        "PEXPIRE k 5000"
        "RPUSH q b:1"
        "ZADD t now-500 b:1"
        "fair/acquire k q t s f / c:1 5000 0 1 -> 0 5000 now+600000 1 | f{ends=now+87000000 kept=now}/60000 \
         k{a:1=1}/5000 q[b:1 c:1]/87000000 s(c:now c:1:now)/60000 t(b:1:now+300000 c:1:now+600000)/87000000"
        "ZREM t c:1"
        "fair/acquire k q t s f / d:1 5000 0 1 -> 0 5000 now+900000 1 | f{ends=now+87000000 kept=now}/60000 \
         k{a:1=1}/5000 q[b:1 c:1 d:1]/87000000 s(c:now c:1:now d:now d:1:now)/60000 t(b:1:now+300000 \
         d:1:now+900000)/87000000"
    }
    the_next_is_told_and_takes_it {
        "hear c:b:1 c"
        "HSET k a:1 1"
        "PEXPIRE k 5000"
        "fair/acquire k q t s f / b:1 5000 0 1 -> 0 5000 now+300000 1 | f{ends=now+86700000 kept=now}/60000 \
         k{a:1=1}/5000 q[b:1]/86700000 s(b:now b:1:now)/60000 t(b:1:now+300000)/86700000"
        "fair/acquire k q t s f / c:1 5000 0 1 -> 0 5000 now+600000 1 | f{ends=now+86700000 kept=now}/60000 \
         k{a:1=1}/5000 q[b:1 c:1]/86700000 s(b:now b:1:now c:now c:1:now)/60000 t(b:1:now+300000 \
         c:1:now+600000)/86700000"
        "fair/release k q t s f / a:1 5000 1 -> 1 1 | f{deaf=0 ends=now+86700000 free=now head=b:1 kept=now look=now \
         score=now+300000 since=now}/60000 q[b:1 c:1]/86700000 s(b:now b:1:now c:now c:1:now)/60000 t(b:1:now+300000 \
         c:1:now+600000)/86700000 | c:b:1=0"
        "wait 100"
        "fair/acquire k q t s f / b:1 400000 0 1 -> 1 | f{deaf=0 ends=now+86699900 free=now-100 kept=now-100 \
         look=now-100 score=now+299900 since=now-100}/59900 k{b:1=1}/400000 q[c:1]/86699900 s(b:now-100 c:now-100 \
         c:1:now-100)/59900 t(c:1:now+599900)/86699900"
    }
    an_inner_hold_is_given_back_once {
        "HSET k a:1 3"
        "PEXPIRE k 5000"
        "fair/release k q t s f / a:1 3000 3 -> 1 -1 | k{a:1=2}/5000"
        "fair/release k q t s f / a:1 3000 3 -> 1 -1"
        "fair/release k q t s f / a:1 9000 2 -> 1 -1 | k{a:1=1}/9000"
        "fair/release k q t s f / a:1 9000 0 -> 5 1"
        "fair/release k q t s f / a:1 9000 3 -> 5 1"
        "fair/release k q t s f / b:1 9000 1 -> 3"
        "fair/release k q t s f / a:1 9000 1 -> 1 -1 | "
    }
    who_holds_nothing_tells_the_next {
        "hear c:b:1"
        "RPUSH q b:1"
        "fair/release k q t s f / a:1 5000 1 -> 3 | q[b:1] | c:b:1=0"
        "HSET k c:1 1"
        "fair/release k q t s f / a:1 5000 1 -> 3"
        "fair/settle k q t s f / a:1 0 1 -> 3"
    }
    another_type_is_left_alone {
        "SET k x"
        "fair/acquire k q t s f / a:1 5000 0 1 -> 4 WRONGTYPE*"
        "fair/release k q t s f / a:1 5000 1 -> 4 WRONGTYPE*"
        "fair/extend k q t s f / a:1 5000 -> 4 WRONGTYPE*"
        "fair/force k q t s f / _ -> 4 WRONGTYPE*"
        "fair/leave k q t s f / a:1 -> 4 WRONGTYPE*"
        "fair/settle k q t s f / a:1 0 0 -> 4 WRONGTYPE*"
        "fair/renew k q t / a:1 5000 -> 1 0"
        "DEL k"
        "SET t x"
        "fair/acquire k q t s f / a:1 5000 0 1 -> 4 WRONGTYPE*"
        "fair/place k q t s f / a:1 -> 4 WRONGTYPE*"
        "fair/refresh k q t s f / a:1 -> 4 WRONGTYPE*"
        "DEL t"
        "SET s x"
        "fair/acquire k q t s f / a:1 5000 0 1 -> 4 WRONGTYPE*"
        "DEL s"
        "SET f x"
        "fair/acquire k q t s f / a:1 5000 0 1 -> 4 WRONGTYPE*"
        "DEL f"
        "SET q x"
        "fair/acquire k q t s f / a:1 5000 0 1 -> 4 WRONGTYPE*"
        "fair/place k q t s f / a:1 -> 4 WRONGTYPE*"
    }
    a_broken_queue_keeps_no_hold {
        "SET q x"
        "HSET k a:1 1"
        "fair/extend k q t s f / a:1 5000 -> 1 5000 | k{a:1=1}/5000 q=x"
        "fair/renew k q t / a:1 6000 -> 1 1 | k{a:1=1}/6000 q=x"
        "fair/release k q t s f / a:1 5000 1 -> 1 -1 | q=x"
        "HSET k a:1 1"
        "fair/force k q t s f / _ -> 1 -1 a:1 | q=x"
        "fair/release k q t s f / a:1 5000 1 -> 3"
        "DEL q"
        "RPUSH q b:1"
        "SET t x"
        "HSET k a:1 1"
        "fair/renew k q t / a:1 6000 -> 1 1 | k{a:1=1}/6000 q[b:1] t=x"
    }
    a_lease_is_set_exactly {
        "fair/extend k q t s f / a:1 5000 -> 3"
        "HSET k a:1 1"
        "RPUSH q b:1"
        "ZADD t now b:1"
        "fair/extend k q t s f / a:1 0 -> 1 -1"
        "fair/extend k q t s f / a:1 5000 -> 1 5000 | k{a:1=1}/5000 q[b:1] t(b:1:now+300000)"
        "fair/extend k q t s f / a:1 400000 -> 1 400000 | k{a:1=1}/400000 q[b:1] t(b:1:now+400000)"
        "wait 0"
        "fair/extend k q t s f / a:1 1 -> 1 1 | k{a:1=1}/1 q[b:1] t(b:1:now+400000)"
    }
    it_is_ended_by_force {
        "hear c:b:1"
        "fair/force k q t s f / _ -> 0"
        "HSET k a:1 1"
        "RPUSH q b:1"
        "fair/force k q t s f / b:1 -> 0"
        "fair/force k q t s f / a:1 -> 1 1 a:1 | f{deaf=0 free=now head=b:1 look=now score=now+300000 \
          since=now}/60000 q[b:1] t(b:1:now+300000) | c:b:1=0"
        "HSET k a:1 1 b 1 c 1 d 1 e 1 f 1 g 1 h 1 i 1 j 1 k 1"
        "DEL q t f"
        "fair/force k q t s f / _ -> 1 -1 a:1 b c d e f g h i j | "
    }
    nobody_is_told_while_it_is_held {
        "hear c:c:1"
        "HSET k a:1 1"
        "RPUSH q b:1 c:1"
        "ZADD t now+1 b:1 now+2 c:1"
        "fair/leave k q t s f / b:1 -> 1 1 | k{a:1=1} q[c:1] t(c:1:now+2)"
        "RPUSH q a:1"
        "DEL t"
        "fair/leave k q t s f / a:1 -> 1 1 | k{a:1=1} q[c:1]"
        "ZADD t now+2 c:1"
        "RPUSH q a:1"
        "fair/leave k q t s f / a:1 -> 1 1"
        "LPUSH q a:1"
        "fair/leave k q t s f / a:1 -> 1 1 | k{a:1=1} q[c:1 a:1] t(c:1:now+2)"
    }
    who_waits_is_kept {
        "RPUSH q b:1 b:2"
        "ZADD t now+1000 b:1 now+2000 b:2"
        "ZADD s now-500 b:1 now-86400000 old now-86300000 young"
        "fair/refresh k q t s f / b:1 b:3 b:2 -> 1 1 0 1 | f{ends=now+86402000 kept=now}/60000 q[b:1 b:2]/86402000 \
         s(young:now-86300000 b:now b:1:now b:2:now)/60000 t(b:1:now+1500 b:2:now+2000)/86402000"
        "wait 0"
        "HSET k a:1 1"
        "fair/refresh k q t s f / b:2 -> 1 1 | f{ends=now+86402000 kept=now}/60000 k{a:1=1} q[b:1 b:2]/86402000 \
         s(young:now-86300000 b:now b:1:now b:2:now)/60000 t(b:2:now+2000 b:1:now+300000)/86402000"
    }
    nobody_waits {
        "HSET k a:1 1"
        "fair/refresh k q t s f / b:1 -> 1 0"
        "fair/extend k q t s f / a:1 5000 -> 1 5000 | k{a:1=1}/5000"
    }
    a_score_moves_on_with_the_time_and_not_back {
        "RPUSH q b:1"
        "ZADD t now+1000 b:1"
        "ZADD s now+500 b:1"
        "wait 0"
        "fair/refresh k q t s f / b:1 -> 1 1 | f{ends=now+86401000 kept=now}/60000 q[b:1]/86401000 s(b:now \
         b:1:now)/60000 t(b:1:now+1000)/86401000"
        "wait 1"
        "fair/refresh k q t s f / b:1 -> 1 1 | f{ends=now+86401000 kept=now}/60000 q[b:1]/86401000 s(b:now \
         b:1:now)/60000 t(b:1:now+1000)/86401000"
        "ZADD t now-500 b:1"
        "fair/refresh k q t s f / b:1 -> 1 1 | f{ends=now+86400000 kept=now}/60000 q[b:1]/86400000 s(b:now \
         b:1:now)/60000 t(b:1:now-500)/86400000"
    }
    the_unseen_go_in_parts {
        "RPUSH q b:1"
        "ZADD t now+1000 b:1"
        "lua for i = 10, 39 do redis.call('ZADD', 's', 1, i) end"
        "wait 0"
        "fair/refresh k q t s f / b:1 -> 1 1 | f{ends=now+86401000 kept=now}/60000 q[b:1]/86401000 s(35:1 36:1 37:1 \
         38:1 39:1 b:now b:1:now)/60000 t(b:1:now+1000)/86401000"
    }
    leases_only_grow {
        "HSET a o 1"
        "PEXPIRE a 1000"
        "RPUSH aq w"
        "ZADD at now w"
        "HSET b o 1"
        "PEXPIRE b 9000"
        "HSET d x 1"
        "RPUSH dq w"
        "ZADD dt now w"
        "fair/renew a aq at b bq bt d dq dt / o 5000 o 5000 o 5000 -> 1 1 1 0 | a{o=1}/5000 aq[w] at(w:now+300000) \
          b{o=1}/9000 d{x=1} dq[w] dt(w:now)"
        "fair/renew d dq dt a aq at / x 7000 o 400000 -> 1 1 1 | a{o=1}/400000 aq[w] at(w:now+400000) b{o=1}/9000 \
          d{x=1}/7000 dq[w] dt(w:now+300000)"
        "fair/renew a aq at / o 5000 -> 1 1"
    }
    a_count_is_lowered {
        "hear c:b:1"
        "RPUSH q b:1 a:1"
        "ZADD t now b:1 now a:1"
        "HSET k a:1 3"
        "fair/settle k q t s f / a:1 3 1 -> 0"
        "fair/settle k q t s f / a:1 1 1 -> 1 -1 | k{a:1=1} q[b:1 a:1] t(a:1:now b:1:now)"
        "fair/settle k q t s f / a:1 1 0 -> 0 | k{a:1=1} q[b:1] t(b:1:now)"
        "fair/settle k q t s f / a:1 0 0 -> 1 1 | f{deaf=0 free=now head=b:1 look=now score=now+300000 \
          since=now}/60000 q[b:1] t(b:1:now+300000) | c:b:1=0"
        "HSET k a:1 many"
        "fair/settle k q t s f / a:1 0 1 -> 0 | f{deaf=0 free=now head=b:1 look=now score=now+300000 since=now}/60000 \
          k{a:1=many} q[b:1] t(b:1:now+300000)"
    }
    scores_that_are_too_far_ahead_are_set_anew {
        "RPUSH q a:1 b:1 c:1"
        "ZADD t now+1 a:1 now+1500001 b:1 now+1600000 c:1"
        "wait 0"
        "fair/acquire k q t s f / a:1 5000 0 1 -> 1 | f{pass=0}/60000 k{a:1=1}/5000 q[b:1 c:1] t(b:1:now+300000 \
         c:1:now+600000)"
    }
    scores_that_the_queue_bears_stay {
        "RPUSH q a:1 b:1 c:1"
        "ZADD t now+1 a:1 now+1500000 b:1 now+9900000 c:1"
        "wait 0"
        "fair/acquire k q t s f / a:1 5000 0 1 -> 1 | k{a:1=1}/5000 q[b:1 c:1] t(b:1:now+1500000 c:1:now+9900000)"
    }
    the_next_is_raised_and_the_others_are_left_alone {
        "RPUSH q a:1 b:1 c:1"
        "ZADD t now+1 a:1 now+2 b:1 now+3 c:1"
        "wait 0"
        "fair/acquire k q t s f / a:1 5000 0 1 -> 1 | k{a:1=1}/5000 q[b:1 c:1] t(c:1:now+3 b:1:now+300000)"
    }
    a_pass_goes_on_where_it_was {
        "RPUSH q a:1 b:1 c:1 d:1"
        "ZADD t now+1 a:1 now+2200001 b:1 now+2200002 c:1 now+4 d:1"
        "HSET f pass 2"
        "wait 0"
        "fair/acquire k q t s f / a:1 400000 0 1 -> 1 | f{pass=0}/60000 k{a:1=1}/400000 q[b:1 c:1 d:1] t(d:1:now+4 \
         b:1:now+400000 c:1:now+700000)"
    }
    what_is_no_pass_is_none {
        "RPUSH q a:1 b:1"
        "ZADD t now+1 a:1 now+900001 b:1"
        "HSET f pass y"
        "wait 0"
        "fair/acquire k q t s f / a:1 5000 0 1 -> 1 | f{pass=0}/60000 k{a:1=1}/5000 q[b:1] t(b:1:now+300000)"
        "DEL k"
        "LPUSH q a:1"
        "ZADD t now+900001 b:1"
        "HSET f pass -1"
        "fair/acquire k q t s f / a:1 5000 0 1 -> 1 | f{pass=0}/60000 k{a:1=1}/5000 q[b:1] t(b:1:now+300000)"
    }
    who_empties_the_queue_leaves_nothing {
        "RPUSH q a:1"
        "ZADD t now a:1"
        "fair/acquire k q t s f / a:1 5000 0 1 -> 1 | k{a:1=1}/5000"
    }
    who_came_without_a_place_raises_the_next {
        "RPUSH q a:1 b:1"
        "fair/acquire k q t s f / a:1 5000 0 1 -> 1 | k{a:1=1}/5000 q[b:1] t(b:1:now+300000)"
    }
    a_hold_without_ttl_raises_the_head {
        "HSET k a:1 1"
        "RPUSH q b:1"
        "ZADD t now b:1"
        "fair/acquire k q t s f / c:1 5000 0 1 -> 0 -1 now+600000 1 | f{ends=now+87000000 kept=now}/60000 k{a:1=1} \
         q[b:1 c:1]/87000000 s(c:now c:1:now)/60000 t(b:1:now+300000 c:1:now+600000)/87000000"
    }
    a_pass_goes_on_at_the_next_acquisition {
        "lua for i = 1, 192 do redis.call('RPUSH', 'q', 'b:' .. i) redis.call('ZADD', 't', 1e15 + i, 'b:' .. i) end"
        "HSET f pass 191"
        "wait 0"
        "fair/acquire k q t s f / b:1 5000 0 1 -> 1 | *"
        "lua assert(redis.call('HGET', 'f', 'pass') == '1')"
    }
    a_pass_begins_at_the_tail {
        "lua for i = 1, 193 do redis.call('RPUSH', 'q', 'b:' .. i) redis.call('ZADD', 't', 1e15 + i, 'b:' .. i) end"
        "HSET f pass 0"
        "wait 0"
        "fair/acquire k q t s f / b:1 5000 0 1 -> 1 | *"
        "lua assert(redis.call('HGET', 'f', 'pass') == '2')"
    }
    a_pass_ends_at_the_head {
        "RPUSH q a:1 b:1 c:1"
        "ZADD t now+1 a:1 now+1500001 b:1 now+1500002 c:1"
        "HSET f pass 1"
        "wait 0"
        "fair/acquire k q t s f / a:1 5000 0 1 -> 1 | f{pass=0}/60000 k{a:1=1}/5000 q[b:1 c:1] t(b:1:now+300000 \
         c:1:now+1500002)"
    }
    who_has_no_score_has_no_place {
        "RPUSH q a:1"
        "fair/place k q t s f / a:1 -> 1 1 -1"
        "ZADD t 1 b:1"
        "fair/place k q t s f / b:1 -> 1 1 -1"
    }
}
