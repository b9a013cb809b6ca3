//! The reentrant lock's scripts, which the fenced and the spin lock have too.

crate::lua::stories! {
    it_is_taken_once {
        "reentrant/acquire lock / o 5000 0 -> 1 | lock{o=1}/5000"
        "wait 1000"
        "reentrant/acquire lock / o 5000 0 -> 1 | lock{o=1}/5000"
        "reentrant/acquire lock / o 1000 0 -> 1"
    }
    it_is_entered_once_more {
        "HSET lock o 1"
        "PEXPIRE lock 5000"
        "reentrant/acquire lock / o 3000 1 -> 1 | lock{o=2}/5000"
        "reentrant/acquire lock / o 3000 1 -> 1"
        "reentrant/acquire lock / o 9000 2 -> 1 | lock{o=3}/9000"
        "reentrant/acquire lock / o 9000 1 -> 5 3"
        "reentrant/acquire lock / o 9000 4 -> 5 3"
        "reentrant/acquire lock / o 9000 5 -> 5 3"
    }
    it_is_busy {
        "HSET lock x 1"
        "reentrant/acquire lock / o 5000 0 -> 0 -1"
        "PEXPIRE lock 700"
        "reentrant/acquire lock / o 5000 0 -> 0 700"
        "reentrant/acquire lock / o 5000 1 -> 3"
    }
    a_hold_that_is_gone_is_not_entered {
        "reentrant/acquire lock / o 5000 1 -> 3"
    }
    a_refused_lease_takes_nothing {
        "reentrant/acquire lock / o 1e30 0 -> 6 ERR value is not an integer* | "
        "HSET lock o 1"
        "PEXPIRE lock 500"
        "reentrant/acquire lock / o 1e30 1 -> 6 ERR value is not an integer*"
        "HSET lock o 2"
        "reentrant/acquire lock / o 1e30 1 -> 6 ERR value is not an integer*"
    }
    another_type_is_left_alone {
        "SET lock x"
        "reentrant/acquire lock / o 5000 0 -> 4 WRONGTYPE*"
        "reentrant/release lock / o 5000 1 -> 4 WRONGTYPE*"
        "reentrant/extend lock / o 5000 -> 4 WRONGTYPE*"
        "reentrant/force lock / _ -> 4 WRONGTYPE*"
        "reentrant/hand_over lock / o p 5000 -> 4 WRONGTYPE*"
        "reentrant/inspect lock -> 4 WRONGTYPE*"
        "reentrant/move lock / r o 5000 -> 4 WRONGTYPE*"
        "reentrant/release_both lock / r o -> 4 WRONGTYPE*"
        "reentrant/settle lock / o 0 -> 4 WRONGTYPE*"
        "reentrant/renew lock / o 5000 -> 1 0"
    }
    a_run_becomes_its_owners {
        "HSET lock r 1"
        "PEXPIRE lock 5000"
        "reentrant/move lock / r o 3000 -> 1 | lock{o=1}/5000"
        "reentrant/move lock / r o 3000 -> 1"
        "reentrant/move lock / r o 9000 -> 1 | lock{o=1}/9000"
        "reentrant/move lock / r p 9000 -> 3"
        "reentrant/move lock / o p 0 -> 1 | lock{p=1}/9000"
    }
    a_run_may_move_in_the_last_millisecond_of_its_lease {
        "HSET lock r 1"
        "PEXPIRE lock 1"
        "wait 1"
        "reentrant/move lock / r o 0 -> 1 | lock{o=1}/1"
    }
    a_run_that_is_not_one_hold_is_left {
        "HSET lock r 2"
        "PEXPIRE lock 5000"
        "reentrant/move lock / r o 3000 -> 5 2"
        "HSET lock r 1"
        "reentrant/move lock / r o 1e30 -> 6 ERR value is not an integer*"
    }
    a_run_or_its_owner_gives_back {
        "hear c"
        "HSET lock r 1"
        "PEXPIRE lock 5000"
        "reentrant/release_both lock / r o -> 1 1 | | c=0"
        "reentrant/release_both lock / r o -> 3 | | c=0"
        "HSET lock o 1"
        "PEXPIRE lock 5000"
        "reentrant/release_both lock / r o -> 1 1 | | c=0"
        "HSET lock x 1"
        "reentrant/release_both lock / r o -> 3"
    }
    it_is_given_back {
        "hear c"
        "HSET lock o 1"
        "PEXPIRE lock 5000"
        "reentrant/release lock / o 5000 1 -> 1 1 | | c=0"
        "reentrant/release lock / o 5000 1 -> 3 | | c=0"
    }
    a_message_that_is_refused_fails_nothing {
        "HSET lock o 1"
        "unheard reentrant/release lock / o 5000 1 -> 1 -1 | "
        "unheard reentrant/release lock / o 5000 1 -> 3"
    }
    only_the_own_hold_is_given_back {
        "hear c"
        "HSET lock x 1"
        "reentrant/release lock / o 5000 1 -> 3"
        "silent reentrant/release lock / o 5000 1 -> 3"
    }
    an_inner_hold_is_given_back_once {
        "hear c"
        "HSET lock o 3"
        "PEXPIRE lock 5000"
        "reentrant/release lock / o 3000 3 -> 1 -1 | lock{o=2}/5000"
        "reentrant/release lock / o 3000 3 -> 1 -1"
        "reentrant/release lock / o 9000 2 -> 1 -1 | lock{o=1}/9000"
        "reentrant/release lock / o 9000 2 -> 1 -1"
        "reentrant/release lock / o 9000 3 -> 5 1"
        "reentrant/release lock / o 9000 0 -> 5 1"
        "reentrant/release lock / o 9000 4 -> 5 1"
    }
    a_copy_lengthens_too {
        "HSET lock o 1"
        "PEXPIRE lock 500"
        "reentrant/release lock / o 3000 2 -> 1 -1 | lock{o=1}/3000"
    }
    a_spin_lock_tells_nobody {
        "hear c"
        "HSET lock o 2"
        "PEXPIRE lock 500"
        "silent reentrant/release lock / o 100 2 -> 1 -1 | lock{o=1}/500"
        "silent reentrant/release lock / o 100 1 -> 1 -1 | "
        "silent reentrant/release lock / o 100 1 -> 3"
        "HSET lock o 2"
        "silent reentrant/settle lock / o 0 -> 1 -1 | "
        "HSET lock o 2"
        "silent reentrant/force lock / _ -> 1 -1 o | "
    }
    a_lease_is_set_exactly {
        "HSET lock o 1"
        "reentrant/extend lock / o 5000 -> 1 5000 | lock{o=1}/5000"
        "wait 0"
        "reentrant/extend lock / o 1 -> 1 1 | lock{o=1}/1"
        "reentrant/extend lock / o 0 -> 1 1"
        "reentrant/extend lock / x 5000 -> 3"
    }
    it_is_ended_by_force {
        "hear c"
        "reentrant/force lock / _ -> 0"
        "HSET lock o 1"
        "reentrant/force lock / x -> 0"
        "reentrant/force lock / o -> 1 1 o | | c=0"
        "HSET lock o 1"
        "reentrant/force lock / _ -> 1 1 o | | c=0"
    }
    ten_at_most_are_told {
        "HSET lock a 1 b 1 c 1 d 1 e 1 f 1 g 1 h 1 i 1 j 1 k 1"
        "reentrant/force lock / _ -> 1 0 a b c d e f g h i j | "
    }
    it_is_handed_over {
        "HSET lock o 1"
        "PEXPIRE lock 9000"
        "reentrant/hand_over lock / o p 5000 -> 1 | lock{p=1}/5000"
        "wait 1000"
        "reentrant/hand_over lock / o p 5000 -> 1 | lock{p=1}/5000"
        "reentrant/hand_over lock / o p 1000 -> 1"
        "reentrant/hand_over lock / o q 1000 -> 3"
        "HSET lock p 2"
        "reentrant/hand_over lock / p o 1000 -> 5 2"
        "reentrant/hand_over lock / o p 1000 -> 3"
        "HSET lock p 1"
        "reentrant/hand_over lock / p o 1e30 -> 6 ERR value is not an integer*"
    }
    it_is_looked_at {
        "reentrant/inspect lock -> 0"
        "HSET lock o 2"
        "PEXPIRE lock 700"
        "reentrant/inspect lock -> 1 700 o 2"
    }
    leases_only_grow {
        "HSET a o 1"
        "PEXPIRE a 1000"
        "HSET b o 1"
        "PEXPIRE b 9000"
        "HSET c x 1"
        "HSET d p 1"
        "reentrant/renew a b c d / o 5000 o 5000 o 5000 p 7000 -> 1 1 1 0 1 | a{o=1}/5000 b{o=1}/9000 c{x=1} \
          d{p=1}/7000"
    }
    a_count_is_lowered {
        "hear c"
        "reentrant/settle lock / o 0 -> 3"
        "HSET lock o 3"
        "reentrant/settle lock / o 3 -> 0"
        "reentrant/settle lock / o 4 -> 0"
        "reentrant/settle lock / o 2 -> 1 -1 | lock{o=2}"
        "reentrant/settle lock / o 1 -> 1 -1 | lock{o=1}"
        "reentrant/settle lock / o 0 -> 1 1 | | c=0"
        "HSET lock o many"
        "reentrant/settle lock / o 0 -> 0"
    }
    nobody_listens {
        "HSET lock o 1"
        "PEXPIRE lock 5000"
        "reentrant/release lock / o 5000 1 -> 1 0 | "
    }
}
