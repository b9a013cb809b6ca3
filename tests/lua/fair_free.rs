//! The fair lock's scripts where it is free: its head is told, watched, and dropped when it is dead.

crate::lua::stories! {
    a_watched_heads_score_is_left_alone {
        "RPUSH q b:1"
        "ZADD t now+1 b:1"
        "HSET f head b:1 score now+1 since now look now free now deaf 0"
        "wait 0"
        "fair/acquire k q t s f / c:1 5000 0 1 -> 0 5000 now+600000 1 | f{deaf=0 ends=now+87000000 free=now head=b:1 \
         kept=now look=now score=now+1 since=now}/60000 q[b:1 c:1]/87000000 s(c:now c:1:now)/60000 t(b:1:now+1 \
         c:1:now+600000)/87000000"
    }
    a_free_locks_head_is_told_and_watched {
        "hear c:b:1"
        "RPUSH q b:1"
        "ZADD t now+1 b:1"
        "ZADD s now b now b:1"
        "fair/acquire k q t s f / c:1 5000 0 0 -> 0 3000 | f{deaf=0 free=now head=b:1 look=now score=now+300000 \
          since=now}/86400000 q[b:1] s(b:now b:1:now) t(b:1:now+300000) | c:b:1=0"
        "wait 399"
        "fair/acquire k q t s f / c:1 5000 0 0 -> 0 2601"
        "wait 1"
        "fair/acquire k q t s f / c:1 5000 0 0 -> 0 2600 | f{deaf=0 free=now-400 head=b:1 look=now score=now+299600 \
          since=now-400}/86399600 q[b:1] s(b:now-400 b:1:now-400) t(b:1:now+299600) | c:b:1=0"
        "ZADD s now b"
        "fair/acquire k q t s f / c:1 5000 0 0 -> 0 2600"
        "wait 2599"
        "ZADD s now b"
        "fair/acquire k q t s f / c:1 5000 0 0 -> 0 1 | f{deaf=0 free=now-2999 head=b:1 look=now score=now+297001 \
          since=now-2999}/86397001 q[b:1] s(b:1:now-2999 b:now) t(b:1:now+297001) | c:b:1=0"
        "wait 1"
        "fair/acquire k q t s f / c:1 5000 0 0 -> 1 | k{c:1=1}/5000"
    }
    who_queues_leaves_a_state_that_ends_in_a_minute {
        "wait 0"
        "RPUSH q b:1"
        "ZADD t now+1 b:1"
        "ZADD s now b now b:1"
        "HSET f kept now ends now+90000000"
        "fair/acquire k q t s f / c:1 5000 0 1 -> 0 3000 now+600000 1 | f{deaf=now ends=now+90000000 free=now \
         head=b:1 kept=now look=now score=now+300000 since=now}/60000 q[b:1 c:1] s(b:now b:1:now c:now c:1:now) \
         t(b:1:now+300000 c:1:now+600000)"
    }
    who_queues_behind_the_dead_leaves_a_state_that_ends_in_a_minute {
        "wait 0"
        "RPUSH q b:1 d:1"
        "ZADD t now+1 b:1 now+2 d:1"
        "ZADD s now-5000 b now-5000 b:1"
        "HSET f head b:1 score now+1 since now-3000 look now free now-3000 deaf 0 kept now ends now+90000000"
        "fair/acquire k q t s f / c:1 5000 0 1 -> 0 5000 now+600000 1 | f{deaf=now ends=now+90000000 free=now-3000 \
         head=d:1 kept=now look=now score=now+300000 since=now}/60000 q[d:1 c:1] s(b:now-5000 c:now c:1:now) \
         t(d:1:now+300000 c:1:now+600000)"
    }
    a_dead_client_takes_its_waiters_along {
        "wait 0"
        "RPUSH q b:1 b:2 d:1"
        "ZADD t now+1 b:1 now+2 b:2 now+3 d:1"
        "ZADD s now-5000 b now b:1 now b:2"
        "HSET f head b:1 score now+1 since now-3000 look now free now-3000 deaf 0"
        "fair/acquire k q t s f / c:1 5000 0 0 -> 0 5000 | f{deaf=now free=now-3000 head=d:1 look=now \
          score=now+300000 since=now}/86400000 q[d:1] s(b:now-5000) t(d:1:now+300000)"
    }
    foreign_heads_are_dropped_when_nobody_listens {
        "RPUSH q b:1"
        "ZADD t now+1 b:1"
        "fair/acquire k q t s f / c:1 5000 0 0 -> 0 5000 | f{deaf=now free=now head=b:1 look=now score=now+300000 \
          since=now}/86400000 q[b:1] t(b:1:now+300000)"
        "wait 999"
        "fair/acquire k q t s f / c:1 5000 0 0 -> 0 4001 | f{deaf=now-999 free=now-999 head=b:1 look=now \
          score=now+299001 since=now-999}/86399001 q[b:1] t(b:1:now+299001)"
        "wait 399"
        "fair/acquire k q t s f / c:1 5000 0 0 -> 0 3602"
        "wait 1"
        "fair/acquire k q t s f / c:1 5000 0 0 -> 1 | k{c:1=1}/5000"
    }
    a_head_that_listens_is_not_deaf {
        "RPUSH q b:1"
        "ZADD t now+1 b:1"
        "fair/acquire k q t s f / c:1 5000 0 0 -> 0 5000 | f{deaf=now free=now head=b:1 look=now score=now+300000 \
          since=now}/86400000 q[b:1] t(b:1:now+300000)"
        "hear c:b:1"
        "wait 400"
        "fair/acquire k q t s f / c:1 5000 0 0 -> 0 4600 | f{deaf=0 free=now-400 head=b:1 look=now score=now+299600 \
          since=now-400}/86399600 q[b:1] t(b:1:now+299600) | c:b:1=0"
        "wait 4599"
        "fair/acquire k q t s f / c:1 5000 0 0 -> 0 1 | f{deaf=0 free=now-4999 head=b:1 look=now score=now+295001 \
          since=now-4999}/86395001 q[b:1] t(b:1:now+295001) | c:b:1=0"
        "wait 1"
        "fair/acquire k q t s f / c:1 5000 0 0 -> 1 | k{c:1=1}/5000"
    }
    a_head_becomes_deaf {
        "RPUSH q b:1"
        "ZADD t now+300000 b:1"
        "HSET f head b:1 score now+300000 since now look now free now deaf 0"
        "wait 400"
        "fair/acquire k q t s f / c:1 5000 0 0 -> 0 4600 | f{deaf=now free=now-400 head=b:1 look=now score=now+299600 \
          since=now-400} q[b:1] t(b:1:now+299600)"
    }
    a_waiter_is_dead_with_its_client {
        "RPUSH q b:1"
        "ZADD t now+1 b:1"
        "ZADD s now-2000 b now b:1"
        "HSET f head b:1 score now+1 since now look now free now-5000 deaf 0"
        "wait 0"
        "fair/acquire k q t s f / c:1 5000 0 0 -> 0 1000"
        "ZADD s now b now-9000 b:1"
        "HSET f since now-2000"
        "fair/acquire k q t s f / c:1 5000 0 0 -> 0 1000"
        "HSET f since now-9000 free now-9000"
        "ZADD s now b now-2000 b:1"
        "fair/acquire k q t s f / c:1 5000 0 0 -> 0 1000"
        "ZADD s now-9000 b now b:1"
        "HSET f free now-2500"
        "fair/acquire k q t s f / c:1 5000 0 0 -> 0 500"
    }
    a_time_ahead_of_the_clock_says_nothing {
        "RPUSH q b:1"
        "ZADD t now+1 b:1"
        "ZADD s now+9000 b now+9000 b:1"
        "HSET f head b:1 score now+1 since now-1000 look now free now-2000 deaf 0"
        "wait 0"
        "fair/acquire k q t s f / c:1 5000 0 0 -> 0 1000"
        "ZADD s now b now b:1"
        "HSET f since now+1"
        "fair/acquire k q t s f / c:1 5000 0 0 -> 0 3000 | f{deaf=now free=now head=b:1 look=now score=now+300000 \
          since=now}/86400000 q[b:1] s(b:now b:1:now) t(b:1:now+300000)"
    }
    a_watch_is_over_this_head_at_this_score {
        "RPUSH q b:1"
        "ZADD t now+2 b:1"
        "HSET f head b:1 score now+1 since now-3000 look now free now-3000 deaf 0"
        "wait 0"
        "fair/acquire k q t s f / c:1 5000 0 0 -> 0 5000 | f{deaf=now free=now head=b:1 look=now score=now+300000 \
          since=now}/86400000 q[b:1] t(b:1:now+300000)"
        "HSET f head x:1 since now-3000 free now-3000"
        "fair/acquire k q t s f / c:1 5000 0 0 -> 0 5000 | f{deaf=now free=now head=b:1 look=now score=now+300000 \
          since=now}/86400000 q[b:1] t(b:1:now+300000)"
    }
    a_deaf_head_of_lockson_is_not_dropped_for_that {
        "RPUSH q b:1"
        "ZADD t now+1 b:1"
        "ZADD s now b now b:1"
        "HSET f head b:1 score now+1 since now-2000 look now-400 free now-2000 deaf now-1000"
        "wait 0"
        "fair/acquire k q t s f / c:1 5000 0 0 -> 0 3000 | f{deaf=now-1000 free=now-2000 head=b:1 look=now \
          score=now+1 since=now-2000} q[b:1] s(b:now b:1:now) t(b:1:now+1)"
    }
    the_dead_go_until_one_lives_or_it_is_ones_own_turn {
        "RPUSH q b:1 d:1 a:1 e:1"
        "ZADD t now+1 b:1 now+2 d:1 now+3 a:1 now+4 e:1"
        "ZADD s 1 b 1 b:1 1 d 1 d:1"
        "HSET f head b:1 score now+1 since now-3000 look now free now-3000 deaf 0"
        "wait 0"
        "fair/acquire k q t s f / a:1 5000 0 1 -> 1 | f{deaf=0 free=now-3000 look=now score=now+1 \
         since=now-3000} k{a:1=1}/5000 q[e:1] s(b:1 d:1) t(e:1:now+300000)"
    }
    who_is_dead_is_told_nothing {
        "hear c:b:1"
        "RPUSH q b:1"
        "ZADD t now+1 b:1"
        "HSET f head b:1 score now+1 since now-5000 look now-5000 free now-5000 deaf 0"
        "wait 0"
        "fair/acquire k q t s f / c:1 5000 0 0 -> 1 | k{c:1=1}/5000"
    }
    who_lives_for_a_moment_lives {
        "RPUSH q b:1 d:1"
        "ZADD t now+1 b:1 now+2 d:1"
        "ZADD s now-2999 d"
        "HSET f head b:1 score now+1 since now-5000 look now free now-5000 deaf 0"
        "wait 0"
        "fair/acquire k q t s f / c:1 5000 0 0 -> 0 1 | f{deaf=now free=now-5000 head=d:1 look=now score=now+300000 \
          since=now}/86400000 q[d:1] s(d:now-2999) t(d:1:now+300000)"
        "HSET f since now-9000 free now-9000 look now"
        "fair/acquire k q t s f / c:1 5000 0 0 -> 1 | k{c:1=1}/5000"
    }
    a_dead_head_makes_room {
        "RPUSH q b:1"
        "ZADD t 7 b:1"
        "HSET f head b:1 score 7 since 5 look 5 free 5 deaf 0"
        "fair/acquire k q t s f / c:1 5000 0 0 -> 1 | k{c:1=1}/5000"
    }
    a_waiter_may_be_dead_before_its_client {
        "RPUSH q b:1"
        "ZADD t now+1 b:1"
        "ZADD s now-2999 b now-9000 b:1"
        "HSET f head b:1 score now+1 since now-9000 look now free now-9000 deaf 0"
        "wait 0"
        "fair/acquire k q t s f / c:1 5000 0 0 -> 1 | k{c:1=1}/5000"
    }
    whose_time_is_at_its_end_is_dead {
        "RPUSH q b:1 d:1"
        "ZADD t now+1 b:1 now+2 d:1"
        "ZADD s now-3000 d"
        "HSET f head b:1 score now+1 since now-5000 look now free now-5000 deaf 0"
        "wait 0"
        "fair/acquire k q t s f / c:1 5000 0 0 -> 1 | k{c:1=1}/5000"
    }
    who_asks_lives_whenever_it_was_seen {
        "RPUSH q b:1 a:1 e:1"
        "ZADD t now+1 b:1 now+2 a:1 now+3 e:1"
        "ZADD s 1 a 1 a:1"
        "HSET f head b:1 score now+1 since now-5000 look now free now-5000 deaf 0"
        "wait 0"
        "fair/acquire k q t s f / a:1 5000 0 1 -> 1 | f{deaf=0 free=now-5000 look=now score=now+1 \
         since=now-5000} k{a:1=1}/5000 q[e:1] s(a:1) t(e:1:now+300000)"
    }
    nobody_listens_for_a_second {
        "RPUSH q b:1"
        "ZADD t now+1 b:1"
        "HSET f head b:1 score now+1 since now-1000 look now-400 free now-1000 deaf now-1000"
        "wait 0"
        "fair/acquire k q t s f / c:1 5000 0 0 -> 1 | k{c:1=1}/5000"
    }
    a_hundred_dead_go_in_a_call {
        "lua for i = 1, 102 do redis.call('RPUSH', 'q', 'b:' .. i) redis.call('ZADD', 't', i, 'b:' .. i) end \
          redis.call('ZADD', 's', 1, 'b')"
        "HSET f head b:1 score 1 since now-3000 look now free now-3000 deaf 0"
        "wait 0"
        "fair/acquire k q t s f / c:1 5000 0 0 -> 0 -3 | f{deaf=now free=now-3000 head=b:101 look=now \
          score=now+300000 since=now}/86400000 q[b:101 b:102] s(b:1) t(b:102:102 b:101:now+300000)"
    }
    a_held_lock_is_not_watched {
        "HSET k a:1 1"
        "PEXPIRE k 5000"
        "HSET f head b:1 debt 5"
        "fair/acquire k q t s f / c:1 5000 0 0 -> 0 5000 | f{debt=5} k{a:1=1}/5000"
    }
}
