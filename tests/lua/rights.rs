//! What scripts answer where their user may not call a command, and what they leave then.

crate::lua::stories! {
    a_copy_that_finds_it_done_writes_for_replicas {
        "HSET k a:1 1"
        "PEXPIRE k 9000"
        "without PEXPIRE fair/acquire k q t s f / a:1 5000 1 1 -> 1 | k{a:1=2}/9000"
        "without PEXPIRE fair/acquire k q t s f / a:1 5000 1 1 -> 6 ERR ACL failure in script*"
    }
    an_error_within_is_told_as_it_is {
        "without HINCRBY fenced reentrant/acquire lock token / o 5000 0 0 1 -> ERR ACL failure in script* | "
    }
    what_can_not_be_undone_is_said {
        "SET p 5"
        "semaphore/acquire p m r / 1 60000 2 -> 1 1 2 none | p=3 r=1 1 2 none/60000"
        "without SET cancel p m r / 1 60000 -> \
          6 ERR ACL failure in script: User default has no permissions to run the 'set' command"
        "without INCRBY cancel p m r / 1 60000 -> 6 NOPERM no permission to INCRBY p"
    }
    a_vote_wants_its_marker {
        "without INFO red reentrant/acquire lock / o 5000 0 boot -> \
          6 ERR ACL failure in script: User default has no permissions to run the 'info' command"
        "without GET red reentrant/acquire lock / o 5000 0 boot -> \
          6 ERR ACL failure in script: User default has no permissions to run the 'get' command"
        "without SET red reentrant/acquire lock / o 5000 0 boot -> \
          6 ERR ACL failure in script: User default has no permissions to run the 'set' command"
    }
    a_watch_that_has_no_end_is_taken_back {
        "HSET k a:1 1"
        "PEXPIRE k 5000"
        "RPUSH q b:1"
        "ZADD t now+300000 b:1"
        "without PEXPIRE fair/release k q t s f / a:1 5000 1 -> 1 0 | q[b:1] t(b:1:now+300000)"
        "HSET k a:1 1"
        "HSET f debt 5"
        "PEXPIRE f 7000"
        "without PEXPIRE fair/release k q t s f / a:1 5000 1 -> \
          1 0 | f{deaf=now debt=5 free=now head=b:1 look=now score=now+300000 since=now}/7000 q[b:1] t(b:1:now+300000)"
        "DEL f"
        "without PEXPIRE fair/acquire k q t s f / c:1 5000 0 0 -> \
          ERR ACL failure in script: User default has no permissions to run the 'pexpire' command*"
    }
    who_may_not_keep_a_queue_does_not_join_it {
        "HSET k a:1 1"
        "PEXPIRE k 5000"
        "without PEXPIRE fair/acquire k q t s f / b:1 5000 0 1 -> NOPERM no permission to PEXPIRE the queue*"
    }
    who_may_not_take_scores_out_leaves_the_queue_as_it_is {
        "RPUSH q a:1 b:1"
        "ZADD t now+300000 a:1 now+600000 b:1"
        "without ZREM fair/settle k q t s f / a:1 0 0 -> NOPERM no permission to ZREM the scores* | \
          q[a:1 b:1] t(a:1:now+300000 b:1:now+600000)"
        "without ZREM fair/settle k q t s f / b:1 0 0 -> NOPERM no permission to ZREM the scores* | \
          q[a:1 b:1] t(a:1:now+300000 b:1:now+600000)"
    }
    who_may_not_take_scores_out_drops_nobody {
        "RPUSH q b:1"
        "ZADD t now+1 b:1"
        "HSET f head b:1 score now+1 since now-5000 look now free now-5000 deaf 0"
        "without ZREM fair/acquire k q t s f / c:1 5000 0 0 -> NOPERM no permission to ZREM the scores*"
    }
    a_head_whose_score_may_not_be_raised_keeps_nobody_from_renewing {
        "HSET k a:1 1"
        "PEXPIRE k 5000"
        "RPUSH q b:1"
        "ZADD t now+5 b:1"
        "without ZADD fair/renew k q t / a:1 6000 -> 1 1 | k{a:1=1}/6000 q[b:1] t(b:1:now+5)"
    }
    who_has_the_lock_when_it_is_refused_has_a_token_next {
        "SET token 100000000000000025"
        "RPUSH q a:1 b:1"
        "ZADD t now+300000 a:1 now+5 b:1"
        "without ZADD fenced fair/acquire k q t s f token / a:1 5000 0 1 0 1 -> \
          ERR ACL failure in script: User default has no permissions to run the 'zadd' command* | k{a:1=1}/5000 \
         q[b:1] t(b:1:now+5) token=100000000000000025"
        "fenced fair/acquire k q t s f token / a:1 5000 0 1 0 1 -> 1 100000000000000026 | k{a:1=1}/5000 q[b:1] \
         t(b:1:now+5) token=100000000000000026"
    }
    what_a_latch_can_not_note_it_does_not_do {
        "SET l 3"
        "latch/count_down l e r / 1 60000 -> 1 2 | l=2 r=1 2 1 /60000"
        "without SET latch/cancel l e r / 1 60000 -> \
          6 ERR ACL failure in script: User default has no permissions to run the 'set' command"
        "without SET latch/count_down l e r / 2 60000 -> \
          6 ERR ACL failure in script: User default has no permissions to run the 'set' command"
        "without SET latch/delete l e r / 3 60000 -> \
          6 ERR ACL failure in script: User default has no permissions to run the 'set' command"
        "without DECRBY latch/count_down l e r / 4 60000 -> 6 NOPERM no permission to DECRBY l"
        "SET l 1"
        "without DECRBY latch/count_down l e r / 5 60000 -> 1 0 | e=sec.123000 opened/86400000 r=5 0 1 /60000"
    }
    a_multi_lock_that_is_refused_takes_none {
        "without HINCRBY multi/acquire a b / o 5000 p 6000 -> \
          6 ERR ACL failure in script: User default has no permissions to run the 'hincrby' command | "
        "without HDEL multi/acquire a b / o 5000 p 1e30 -> \
          6 ERR value is not an integer or out of range | a{o=1}/5000 b{p=1}"
    }
    permits_that_can_not_be_noted_are_not_taken {
        "SET p 3"
        "without ZADD permit_semaphore/acquire p x r / 1 60000 5000~id:a -> \
          6 ERR ACL failure in script: User default has no permissions to run the 'zadd' command"
        "without INCRBY permit_semaphore/acquire p x r / 2 60000 5000~id:a -> \
          1 1 | p=2 r=2 1 0 /60000 x(<a>:now+5000)"
        "SET p 3 PX 1"
        "without PEXPIRE permit_semaphore/acquire p x r / 3 60000 5000~id:b -> 6 NOPERM no permission to PEXPIRE x"
    }
    a_client_is_told_what_it_will_miss {
        "without HGET preflight lock -> 1 HGET # Server*"
        "without EXISTS preflight lock -> 1 EXISTS # Server*"
        "without PTTL preflight lock -> 1 PTTL # Server*"
        "without HINCRBY preflight lock -> 1 HINCRBY # Server*"
        "without HSET preflight lock -> 1 HSET # Server*"
        "without HDEL preflight lock -> 1 HDEL # Server*"
        "without HEXISTS preflight lock -> 1 HEXISTS # Server*"
        "without PEXPIRE preflight lock -> 1 PEXPIRE # Server*"
        "without HSCAN preflight lock -> 1 HSCAN # Server*"
        "without DEL preflight lock -> 1 DEL # Server*"
        "without UNLINK preflight lock -> 1 UNLINK # Server*"
        "without PUBLISH preflight lock -> 1 PUBLISH # Server*"
        "without SUBSCRIBE preflight lock -> 1 SUBSCRIBE # Server*"
        "without UNSUBSCRIBE preflight lock -> 1 UNSUBSCRIBE # Server*"
        "without PING preflight lock -> 1 PING # Server*"
        "without EVAL preflight lock -> 1 EVAL # Server*"
        "without WAIT preflight lock / WAIT -> 1 WAIT # Server*"
        "without EVAL preflight lock / WAIT -> 1 EVAL # Server*"
        "without PING preflight lock / WAIT -> 1 PING # Server*"
        "without CLUSTER preflight lock / WAIT -> 1  # Server*"
        "sharded without CLUSTER preflight lock -> 1 CLUSTER # Server*"
        "without ASKING preflight lock / WAIT -> 1  # Server*"
        "sharded without SPUBLISH preflight lock / WAIT -> 1 SPUBLISH # Server*"
        "sharded without SSUBSCRIBE preflight lock / WAIT -> 1 SSUBSCRIBE # Server*"
        "sharded without SUNSUBSCRIBE preflight lock / WAIT -> 1 SUNSUBSCRIBE # Server*"
        "sharded without ASKING preflight lock / WAIT -> 1 ASKING # Server*"
        "sharded without CLUSTER preflight lock / WAIT -> 1 CLUSTER,CLUSTER # Server*"
        "sharded without EVAL preflight lock / WAIT -> 1 EVAL # Server*"
        "sharded without PING preflight lock / WAIT -> 1 PING # Server*"
        "sharded without WAIT preflight lock / WAIT -> 1 WAIT # Server*"
        "sharded without PUBLISH preflight lock / WAIT -> 1  # Server*"
        "sharded without SUBSCRIBE preflight lock / WAIT -> 1  # Server*"
    }
    a_client_knows_its_server {
        "preflight lock -> 1  # Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\nrun_id:<run>\r\n\
          uptime_in_seconds:0\r\n # Replication\r\nrole:master\r\nconnected_slaves:0\r\nmaster_replid:<run>\r\n \
          # Memory\r\nmaxmemory:0\r\nmaxmemory_policy:noeviction"
        "without INFO preflight lock -> 1"
    }
    a_writer_waits_although_it_can_not_see_who_is_gone {
        "HSET k mode write x:write 1"
        "PEXPIRE k 5000"
        "ZADD w now-5 c:write"
        "without ZRANGE write/acquire k w n / o:write 5000 0 2000 -> 0 5000 | k{mode=write x:write=1}/5000 \
          w(#o:write:-us c:write:now-5 o:write:now+2000)/2000"
        "DEL w"
        "ZADD w now-5 c:write"
        "without ZREM write/acquire k w n / o:write 5000 0 2000 -> 0 5000 | k{mode=write x:write=1}/5000 \
          w(#o:write:-us c:write:now-5 o:write:now+2000)/2000"
    }
    who_may_not_see_places_has_none_before {
        "ZADD w -8000000000000000 #x:write now+500 x:write"
        "without ZSCORE write/acquire k w n / o:write 5000 0 0 -> 1 | k{mode=write o:write=1}/5000 \
          w(#x:write:-8000000000000000 x:write:now+500)"
        "DEL k w"
        "ZADD w -8000000000000000 #x:write"
        "without ZREM write/acquire k w n / o:write 5000 0 0 -> 1 | k{mode=write o:write=1}/5000 \
          w(#x:write:-8000000000000000)"
    }
    a_read_hold_whose_lease_is_refused_is_none {
        "without PEXPIRE read/acquire k w t n / o 5000 0 o:write -> 6 ERR ACL failure* | "
        "HSET k mode read x 1"
        "PEXPIRE k 700"
        "SET {k}:x:rwlock_timeout:1 1 PX 700"
        "without PEXPIRE read/acquire k w t n / o 5000 0 o:write -> 6 ERR ACL failure*"
        "HSET k o 1"
        "SET {k}:o:rwlock_timeout:1 1 PX 700"
        "without PEXPIRE read/acquire k w t n / o 5000 1 o:write -> 6 ERR ACL failure* | k{mode=read o=1 x=1}/700 \
          {k}:o:rwlock_timeout:1=1/5000 {k}:o:rwlock_timeout:2=1/5000 {k}:x:rwlock_timeout:1=1/700"
        "HSET k o 2"
        "without PEXPIRE read/acquire k w t n / o 9000 1 o:write -> 6 ERR ACL failure* | k{mode=read o=2 x=1}/700 \
          {k}:o:rwlock_timeout:1=1/9000 {k}:o:rwlock_timeout:2=1/9000 {k}:x:rwlock_timeout:1=1/700"
    }
    a_reader_needs_no_longer_life_of_the_lock {
        "HSET k mode read x 1"
        "PEXPIRE k 9000"
        "SET {k}:x:rwlock_timeout:1 1 PX 9000"
        "without PEXPIRE read/acquire k w t n / o 5000 0 o:write -> 1 | k{mode=read o=1 x=1}/9000 \
          {k}:o:rwlock_timeout:1=1/5000 {k}:x:rwlock_timeout:1=1/9000"
        "without PEXPIRE read/acquire k w t n / o 5000 1 o:write -> 1 | k{mode=read o=2 x=1}/9000 \
          {k}:o:rwlock_timeout:1=1/5000 {k}:o:rwlock_timeout:2=1/5000 {k}:x:rwlock_timeout:1=1/9000"
        "without PEXPIRE read/acquire k w t n / o 5000 1 o:write -> ERR ACL failure*"
        "SET {k}:q:rwlock_timeout:2 1"
        "without PEXPIRE read/acquire k w t n / q 9001 0 q:write -> 6 ERR ACL failure*"
        "without PEXPIRE read/acquire k w t n / q 9000 0 q:write -> 1 | k{mode=read o=2 q=1 x=1}/9000 \
          {k}:o:rwlock_timeout:1=1/5000 {k}:o:rwlock_timeout:2=1/5000 {k}:q:rwlock_timeout:1=1/9000 \
          {k}:q:rwlock_timeout:2=1 {k}:x:rwlock_timeout:1=1/9000"
    }
    a_writer_who_may_not_leave_stays {
        "HSET k mode write o:write 1 o 1"
        "SET {k}:o:rwlock_timeout:1 1"
        "without HSET write/release k w t n / o:write 5000 1 -> ERR ACL failure*"
    }
    a_writer_leaves_without_memory {
        "HSET k mode write o:write 1 o 1"
        "SET {k}:o:rwlock_timeout:1 1"
        "full write/release k w t n / o:write 5000 1 -> 1 0 | k{mode=read o=1} {k}:o:rwlock_timeout:1=1"
        "HSET k mode write o:write 1 o 1 write_end @9"
        "full write/force k w t n / _ -> 0 | k{mode=read o=1} {k}:o:rwlock_timeout:1=1"
    }
    a_value_of_a_group_that_can_not_be_noted_is_not_taken {
        "without HSET grouped/acquire g / v o 5000 0 -> 6 ERR ACL failure*"
        "HSET g w p w:p:expire_time now+5000 w:p:lock_count 2"
        "PEXPIRE g 5000"
        "without HSET grouped/release g / w p 5000 2 -> 6 ERR ACL failure*"
        "without PEXPIRE grouped/acquire g / v o 5000 0 -> 1 | g{v=o v:o:expire_time=now+5000 v:o:lock_count=1 \
          w=p w:p:expire_time=now+5000 w:p:lock_count=2}/5000"
    }
    a_writer_leaves_although_it_can_not_let_readers_pass {
        "HSET k mode write o:write 1"
        "PEXPIRE k 5000"
        "ZADD w now+500 x:write"
        "without SET write/release k w t n / o:write 5000 1 -> 1 0 | w(x:write:now+500)"
    }
}
