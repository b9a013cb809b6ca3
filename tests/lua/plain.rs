//! The plain lock's scripts.

crate::lua::stories! {
    it_is_taken_once {
        "plain/acquire lock / t 5000 -> 1 | lock=t/5000"
        "wait 1000"
        "plain/acquire lock / t 5000 -> 1 | lock=t/5000"
        "plain/acquire lock / t 1000 -> 1"
        "plain/acquire lock / u 9000 -> 0 5000"
        "PERSIST lock"
        "plain/acquire lock / u 9000 -> 0 -1"
    }
    another_type_is_left_alone {
        "HSET lock o 1"
        "plain/acquire lock / t 5000 -> 4 WRONGTYPE*"
        "plain/release lock / t -> 4 WRONGTYPE*"
        "plain/extend lock / t 5000 -> 4 WRONGTYPE*"
        "plain/force lock / _ -> 4 WRONGTYPE*"
        "plain/hand_over lock / t u 5000 -> 4 WRONGTYPE*"
        "plain/inspect lock / t -> 4 WRONGTYPE*"
        "plain/settle lock / t 0 -> 4 WRONGTYPE*"
        "plain/renew lock / t 5000 -> 1 0"
    }
    a_lease_is_set_exactly {
        "plain/extend lock / t 5000 -> 3"
        "SET lock t"
        "plain/extend lock / t 5000 -> 1 5000 | lock=t/5000"
        "wait 0"
        "plain/extend lock / t 1 -> 1 1 | lock=t/1"
        "plain/extend lock / t 0 -> 1 1"
        "plain/extend lock / u 5000 -> 3"
    }
    it_is_given_back {
        "hear c"
        "SET lock t"
        "plain/release lock / u -> 3"
        "plain/release lock / t -> 1 1 | | c=0"
        "plain/release lock / t -> 3 | | c=0"
    }
    it_is_ended_by_force {
        "hear c"
        "plain/force lock / _ -> 0"
        "SET lock t"
        "plain/force lock / x -> 0"
        "plain/force lock / _ -> 1 1 | | c=0"
    }
    it_is_handed_over {
        "plain/hand_over lock / t u 5000 -> 3"
        "SET lock t PX 9000"
        "plain/hand_over lock / t u 5000 -> 1 | lock=u/5000"
        "wait 1000"
        "plain/hand_over lock / t u 5000 -> 1 | lock=u/5000"
        "plain/hand_over lock / t u 1000 -> 1"
        "plain/hand_over lock / t v 1000 -> 3"
        "plain/hand_over lock / u v 1e30 -> 6 ERR value is not an integer*"
    }
    it_is_looked_at {
        "plain/inspect lock / t -> 0"
        "SET lock t PX 700"
        "plain/inspect lock / t -> 1 700 t 1"
        "plain/inspect lock / u -> 1 700"
    }
    leases_only_grow {
        "SET a t PX 1000"
        "SET b t PX 9000"
        "SET c x"
        "plain/renew a b c / t 5000 t 5000 t 5000 -> 1 1 1 0 | a=t/5000 b=t/9000 c=x"
        "SET d u"
        "plain/renew a d / t 5000 u 7000 -> 1 1 1 | a=t/5000 b=t/9000 c=x d=u/7000"
    }
    what_the_client_does_not_have_ends {
        "hear c"
        "plain/settle lock / t 0 -> 3"
        "SET lock t"
        "plain/settle lock / u 0 -> 3"
        "plain/settle lock / t 1 -> 0"
        "plain/settle lock / t 0 -> 1 1 | | c=0"
    }
    a_release_that_nobody_hears_says_so {
        "SET lock t PX 500"
        "plain/release lock / t -> 1 0 | "
    }
}
