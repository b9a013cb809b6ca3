//! The fair lock's hand-over: to the next of the queue, else it is a release.

crate::lua::stories! {
    it_goes_to_the_next_of_the_queue_at_once {
        "wait 0"
        "HSET k a:1 1"
        "PEXPIRE k 5000"
        "RPUSH q b:1 b:2 b:3"
        "ZADD t now+300000 b:1 now+600000 b:2 now+900000 b:3"
        "ZADD s now b now b:1 now b:2 now b:3"
        "HSET f kept now ends now+87000000"
        "fair/hand_over k q t s f / a:1 b:1 9000 -> 1 | f{ends=now+87000000 kept=now} k{b:1=1}/9000 q[b:2 b:3] \
         s(b:now b:2:now b:3:now) t(b:2:now+600000 b:3:now+900000)"
        "wait 10"
        "fair/hand_over k q t s f / a:1 b:1 9000 -> 1 | f{ends=now+86999990 kept=now-10} k{b:1=1}/9000 q[b:2 b:3] \
         s(b:now-10 b:2:now-10 b:3:now-10) t(b:2:now+599990 b:3:now+899990)"
        "fair/hand_over k q t s f / b:1 b:2 700000 -> 1 | f{ends=now+86999990 kept=now-10} k{b:2=1}/700000 q[b:3] \
         s(b:now-10 b:3:now-10) t(b:3:now+899990)"
        "fair/hand_over k q t s f / b:2 b:3 5000 -> 1 | k{b:3=1}/5000"
        "fair/hand_over k q t s f / b:2 b:3 1000 -> 1 | k{b:3=1}/5000"
    }
    the_one_behind_it_outlives_the_lease {
        "wait 0"
        "HSET k a:1 1"
        "RPUSH q b:1 b:2"
        "ZADD t now+300000 b:1 now+600000 b:2"
        "fair/hand_over k q t s f / a:1 b:1 700000 -> 1 | k{b:1=1}/700000 q[b:2] t(b:2:now+700000)"
    }
    scores_that_are_too_far_ahead_are_set_anew {
        "wait 0"
        "HSET k a:1 1"
        "RPUSH q b:1 b:2"
        "ZADD t now+300000 b:1 now+9600000 b:2"
        "fair/hand_over k q t s f / a:1 b:1 9000 -> 1 | f{pass=0}/60000 k{b:1=1}/9000 q[b:2] t(b:2:now+300000)"
    }
    what_another_is_the_next_for_is_given_back {
        "hear c:c:1"
        "HSET k a:1 1"
        "RPUSH q c:1 b:1"
        "ZADD t now+300000 c:1 now+600000 b:1"
        "wait 0"
        "fair/hand_over k q t s f / a:1 b:1 9000 -> 0 1 | f{deaf=0 free=now head=c:1 look=now score=now+300000 \
         since=now}/60000 q[c:1 b:1] t(c:1:now+300000 b:1:now+600000) | c:c:1=0"
        "fair/hand_over k q t s f / a:1 b:1 9000 -> 3 | f{deaf=0 free=now head=c:1 look=now score=now+300000 \
         since=now}/60000 q[c:1 b:1] t(c:1:now+300000 b:1:now+600000) | c:c:1=0"
    }
    where_no_queue_can_be_read_it_is_given_back {
        "HSET k a:1 1"
        "SET q 1"
        "fair/hand_over k q t s f / a:1 b:1 9000 -> 0 -1 | q=1"
    }
    who_may_not_take_one_out_hands_nothing_over {
        "wait 0"
        "HSET k a:1 1"
        "RPUSH q b:1"
        "without HDEL fair/hand_over k q t s f / a:1 b:1 9000 -> 6 NOPERM*"
    }
    only_a_single_hold_is_handed_over {
        "HSET k a:1 2"
        "RPUSH q b:1"
        "ZADD t now+300000 b:1"
        "fair/hand_over k q t s f / a:1 b:1 9000 -> 5 2"
        "fair/hand_over k q t s f / d:1 b:1 9000 -> 3"
        "DEL k"
        "SET k 1"
        "fair/hand_over k q t s f / a:1 b:1 9000 -> 4 WRONGTYPE*"
    }
    a_refused_lease_hands_nothing_over {
        "HSET k a:1 1"
        "PEXPIRE k 500"
        "RPUSH q b:1"
        "ZADD t now+300000 b:1"
        "fair/hand_over k q t s f / a:1 b:1 1e30 -> 6 ERR value is not an integer*"
    }
    who_gets_it_has_it_whatever_becomes_of_its_place {
        "HSET k a:1 1"
        "RPUSH q b:1"
        "SET t 1"
        "fair/hand_over k q t s f / a:1 b:1 9000 -> 1 | k{b:1=1}/9000 t=1"
    }
}
