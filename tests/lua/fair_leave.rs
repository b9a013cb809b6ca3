//! The fair lock's scripts: who leaves its queue.

crate::lua::stories! {
    who_leaves_is_looked_for_from_the_nearer_end {
        "RPUSH q a:1 b:1 c:1 b:1 d:1"
        "ZADD t 100 a:1 150 d:1 200 b:1 310 e:1 320 f:1"
        "fair/leave k q t s f / b:1 -> 1 1 | q[a:1 c:1 b:1 d:1] t(a:1:100 d:1:150 e:1:310 f:1:320)"
        "RPUSH q h:1 d:1"
        "ZADD t 330 g:1 400 h:1"
        "fair/leave k q t s f / d:1 -> 1 1 | q[a:1 c:1 b:1 d:1 h:1] t(a:1:100 e:1:310 f:1:320 g:1:330 h:1:400)"
        "RPUSH q e:1 k:1 e:1 l:1"
        "ZADD t 405 k:1 410 l:1 515 j:1 520 i:1"
        "fair/leave k q t s f / e:1 -> 1 1 | q[a:1 c:1 b:1 d:1 h:1 k:1 e:1 l:1] \
         t(a:1:100 f:1:320 g:1:330 h:1:400 k:1:405 l:1:410 j:1:515 i:1:520)"
        "RPUSH q k:1 m:1"
        "ZADD t 600 m:1 610 n:1"
        "fair/leave k q t s f / k:1 -> 1 1 | q[a:1 c:1 b:1 d:1 h:1 k:1 e:1 l:1 m:1] \
         t(a:1:100 f:1:320 g:1:330 h:1:400 l:1:410 j:1:515 i:1:520 m:1:600 n:1:610)"
    }
    who_leaves_a_queue_that_lacks_scores_is_looked_for_everywhere {
        "RPUSH q a:1 b:1 c:1 b:1"
        "ZADD t 100 a:1 200 b:1 300 c:1"
        "fair/leave k q t s f / b:1 -> 1 1 | q[a:1 c:1] t(a:1:100 c:1:300)"
    }
    who_came_twice_leaves_twice {
        "HSET k x:1 1"
        "RPUSH q b:1 a:1 a:1"
        "ZADD t now+1 b:1 now+2 a:1"
        "fair/leave k q t s f / a:1 -> 1 1 | k{x:1=1} q[b:1] t(b:1:now+1)"
    }
    many_leave_at_once {
        "hear c:d:1"
        "RPUSH q a:1 b:1 c:1 d:1 e:1"
        "ZADD t now+1 a:1 now+2 b:1 now+3 c:1 now+4 d:1 now+5 e:1"
        "fair/leave k q t s f / b:1 a:1 x:1 c:1 -> 1 4 | \
          f{deaf=0 free=now head=d:1 look=now score=now+300000 since=now}/60000 \
          q[d:1 e:1] t(e:1:now+5 d:1:now+300000) | c:d:1=0"
        "fair/leave k q t s f / e:1 x:1 -> 1 2 | f{deaf=0 free=now head=d:1 look=now score=now+300000 since=now}/60000 \
          q[d:1] t(d:1:now+300000)"
        "HSET k h:1 1"
        "RPUSH q e:1"
        "ZADD t now+5 e:1"
        "fair/leave k q t s f / e:1 d:1 -> 1 2 | k{h:1=1}"
    }
    who_leaves_makes_room {
        "hear c:c:1"
        "RPUSH q b:1 c:1 d:1"
        "ZADD t now+1 b:1 now+2 c:1 now+3 d:1"
        "ZADD s now b:1 now b now c:1 now d:1"
        "fair/leave k q t s f / d:1 -> 1 1 | q[b:1 c:1] s(b:now b:1:now c:1:now) t(b:1:now+1 c:1:now+2)"
        "fair/leave k q t s f / d:1 -> 1 1"
        "fair/leave k q t s f / b:1 -> 1 1 | f{deaf=0 free=now head=c:1 look=now score=now+300000 since=now}/60000 \
          q[c:1] s(b:now c:1:now) t(c:1:now+300000) | c:c:1=0"
        "fair/leave k q t s f / c:1 -> 1 1 | "
    }
    who_waits_no_more_goes_from_the_queue {
        "hear c:b:1"
        "RPUSH q a:1 b:1"
        "ZADD t now a:1 now b:1"
        "fair/settle k q t s f / c:1 0 0 -> 3"
        "fair/settle k q t s f / a:1 0 1 -> 3"
        "fair/settle k q t s f / a:1 0 0 -> 3 | f{deaf=0 free=now head=b:1 look=now score=now+300000 since=now}/60000 \
          q[b:1] t(b:1:now+300000) | c:b:1=0"
        "HSET k c:1 1"
        "fair/settle k q t s f / b:1 0 0 -> 3 | k{c:1=1}"
    }
}
