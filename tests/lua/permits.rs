//! The scripts of semaphores and latches.

crate::lua::stories! {
    permits_are_taken_once {
        "SET p 5"
        "semaphore/acquire p m r / 1 60000 2 -> 1 1 2 none | p=3 r=1 1 2 none/60000"
        "wait 1000"
        "semaphore/acquire p m r / 1 60000 2 -> 1 1 2 none | p=3 r=1 1 2 none/60000"
        "semaphore/acquire p m r / 2 60000 2 2 -> 1 1 2 none | p=1 r=2 1 2 none/60000"
        "semaphore/acquire p m r / 3 60000 2 -> 0"
        "semaphore/acquire p m r / 4 60000 all -> 1 1 1 none | p=0 r=4 1 1 none/60000"
        "semaphore/acquire p m r / 5 60000 all -> 0"
        "SET p -3"
        "semaphore/acquire p m r / 6 60000 1 -> 0"
        "semaphore/acquire p m r / 6 60000 all -> 0"
        "SET p 6"
        "semaphore/acquire p m r / 7 60000 2 1 all -> 1 3 6 none | p=0 r=7 3 6 none/60000"
    }
    what_is_not_there_has_no_permits {
        "semaphore/acquire p m r / 1 60000 1 -> 0"
        "hear c"
        "SET p 0"
        "SET p 1"
        "semaphore/acquire p m r / 3 60000 1 -> 1 1 1 none | p=0 r=3 1 1 none/60000"
        "cancel p m r / 3 60000 -> 1 | p=1 r=3 0 0 /60000 | c=1"
        "DEL r"
        "SET p 0"
        "ZADD x now+9000 aaaaaaaaaaaaaaaa"
        "permit_semaphore/release p x r / 4 60000 id:a 1 -> 1 1 | p=1 r=4 1 0 /60000 | c=1"
        "DEL r"
        "SET p 0"
        "ZADD x now+9000 aaaaaaaaaaaaaaaa"
        "permit_semaphore/cancel p x r / 5 60000 id:a -> 1 | p=1 r=5 0 0 /60000 | c=1"
        "SET p 32"
        "permit_semaphore/acquire p x r / 6 60000 5000~id:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa -> 0 -1"
        "ZADD x now+500000000000000 aaaaaaaaaaaaaaaa"
        "wait 0"
        "permit_semaphore/acquire p x r / 6 60000 5000~id:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa -> 0 500000000000000"
    }
    very_many_that_expired_go_in_parts {
        "SET p 0"
        "lua for i = 1, 501 do redis.call('ZADD', 'x', i, 'p' .. i) end"
        "permit_semaphore/acquire p x r / 1 60000 5000~id:a -> 0 -3 | p=500 x(p501:501)"
        "permit_semaphore/acquire p x r / 1 60000 5000~id:a -> 1 1 | p=500 r=1 1 0 /60000 x(<a>:now+5000)"
        "DEL x r"
        "SET p -600"
        "lua for i = 1, 501 do redis.call('ZADD', 'x', i, 'p' .. i) end"
        "permit_semaphore/acquire p x r / 1 60000 5000~id:a -> 0 -3 | p=-100 x(p501:501)"
        "permit_semaphore/acquire p x r / 1 60000 5000~id:a -> 0 -1 | p=-99"
    }
    permits_of_a_semaphore_in_its_last_millisecond_end_with_it {
        "SET p 1 PX 1"
        "wait 1"
        "permit_semaphore/acquire p x r / 1 60000 5000~id:a -> 1 1 | p=0/0 r=1 1 0 /60000 x(<a>:now+5000)/1"
    }
    who_finds_enough_is_served_before_what_expired_goes {
        "SET p 1"
        "lua for i = 1, 500 do redis.call('ZADD', 'x', i, 'p' .. i) end"
        "permit_semaphore/acquire p x r / 1 60000 5000~id:a -> 1 1 | p=499 r=1 1 0 /60000 x(p500:500 <a>:now+5000)"
    }
    a_semaphore_has_a_life {
        "SET p 5"
        "SET m life"
        "semaphore/acquire p m r / 1 60000 2 -> 1 1 2 life | m=life p=3 r=1 1 2 life/60000"
        "DEL p"
        "semaphore/acquire p m r / 2 60000 2 -> 0 | r=1 1 2 life/60000"
    }
    a_call_that_was_undone_takes_nothing {
        "SET p 5"
        "cancel p m r / 1 60000 -> 0 | p=5 r=1 0 0 /60000"
        "semaphore/acquire p m r / 1 60000 2 -> 0"
        "semaphore/acquire p m r / 2 60000 2 -> 1 1 2 none | p=3 r=2 1 2 none/60000"
        "semaphore/change p m r / 2 60000 2 always -> 1"
    }
    what_is_no_semaphore_is_left_alone {
        "HSET p a 1"
        "semaphore/acquire p m r / 1 60000 2 -> 4 WRONGTYPE*"
        "semaphore/change p m r / 1 60000 2 always -> 4 WRONGTYPE*"
        "semaphore/inspect p -> 4 WRONGTYPE*"
        "cancel p m r / 1 60000 -> 4 WRONGTYPE*"
        "DEL p"
        "semaphore/inspect p -> 0"
        "SET p 2.5"
        "semaphore/acquire p m r / 1 60000 2 -> 4 its value is no number"
        "semaphore/change p m r / 1 60000 2 always -> 4 its value is no number"
        "semaphore/inspect p -> 4 its value is no number"
        "SET p -7"
        "semaphore/inspect p -> 1 -7"
    }
    a_refused_acquisition_takes_nothing {
        "SET p 5"
        "semaphore/acquire p m r / 1 1e30 2 -> 6 ERR value is not an integer*"
        "SET p 99999999999999999999"
        "semaphore/acquire p m r / 1 60000 2 -> 6 ERR value is not an integer*"
        "SET p 9223372036854775807"
        "semaphore/change p m r / 1 60000 2 exists -> 6 ERR increment or decrement would overflow*"
    }
    permits_are_added_once {
        "hear c"
        "semaphore/change p m r / 1 60000 3 absent -> 1 | m=r#1 p=3 r=1 1 0 r#1/60000 | c=3"
        "semaphore/change p m r / 1 60000 3 absent -> 1"
        "semaphore/change p m r / 2 60000 3 absent -> 0"
        "semaphore/change p m r / 3 60000 2 always -> 1 | m=r#1 p=5 r=3 1 -2 r#1/60000 | c=5"
        "semaphore/change p m r / 4 60000 -1 always -> 1 | m=r#1 p=4 r=4 1 1 r#1/60000"
        "semaphore/change p m r / 5 60000 1 same r#1 -> 1 | m=r#1 p=5 r=5 1 -1 r#1/60000 | c=5"
        "semaphore/change p m r / 6 60000 1 same r#2 -> 0"
        "semaphore/change p m r / 7 60000 1 exists -> 1 | m=r#1 p=6 r=7 1 -1 r#1/60000 | c=6"
        "semaphore/change p m r / 8 60000 -9 always -> 1 | m=r#1 p=-3 r=8 1 9 r#1/60000"
        "semaphore/change p m r / 9 60000 1 always -> 1 | m=r#1 p=-2 r=9 1 -1 r#1/60000"
        "semaphore/change p m r / 10 60000 2 always -> 1 | m=r#1 p=0 r=10 1 -2 r#1/60000"
        "semaphore/change p m r / 11 60000 1 always -> 1 | m=r#1 p=1 r=11 1 -1 r#1/60000 | c=1"
    }
    as_many_as_there_may_be_are_added_at_once {
        "hear c"
        "semaphore/change p m r / 1 60000 2147483647 always -> 1 | m=r#1 p=2147483647 r=1 1 -2147483647 r#1/60000 | \
          c=2147483647"
    }
    a_semaphore_that_was_made_stays {
        "hear c"
        "semaphore/change p m r / 1 60000 3 absent -> 1 | m=r#1 p=3 r=1 1 0 r#1/60000 | c=3"
        "cancel p m r / 1 60000 -> 1 | m=r#1 p=3 r=1 0 0 /60000"
    }
    a_semaphore_that_is_undone_is_none {
        "semaphore/change p m r / 1 60000 3 always -> 1 | m=r#1 p=3 r=1 1 -3 r#1/60000"
        "cancel p m r / 1 60000 -> 1 | r=1 0 0 /60000"
        "semaphore/change p m r / 2 60000 3 always -> 1 | m=r#2 p=3 r=2 1 -3 r#2/60000"
        "semaphore/acquire p m s / 3 60000 1 -> 1 1 1 r#2 | m=r#2 p=2 r=2 1 -3 r#2/60000 s=3 1 1 r#2/60000"
        "cancel p m r / 2 60000 -> 1 | m=r#2 p=-1 r=2 0 0 /60000 s=3 1 1 r#2/60000"
    }
    a_semaphore_that_is_gone_gets_nothing_back {
        "SET m life"
        "semaphore/change p m r / 1 60000 2 exists -> 0 | "
        "SET m life"
        "semaphore/change p m r / 1 60000 2 same life -> 0 | "
        "semaphore/change p m r / 1 60000 2 same none -> 0"
        "SET p 1"
        "semaphore/change p m r / 1 60000 2 same none -> 1 | p=3 r=1 1 -2 none/60000"
        "DEL p"
        "semaphore/change p m r / 2 60000 2 always -> 1 | m=r#2 p=2 r=2 1 -2 r#2/60000"
    }
    there_are_so_many_permits_at_most {
        "SET p 2147483640"
        "semaphore/change p m r / 1 60000 8 always -> 6 ERR there would be more than 2147483647 free permits"
        "semaphore/change p m r / 1 60000 7 always -> 1 | p=2147483647 r=1 1 -7 none/60000"
        "semaphore/change p m r / 2 60000 1 same none -> 1 | p=2147483648 r=2 1 -1 none/60000"
        "semaphore/change p m r / 3 60000 1 exists -> 1 | p=2147483649 r=3 1 -1 none/60000"
        "DEL p"
        "semaphore/change p m r / 4 60000 2147483648 absent -> 6 ERR there would be more than 2147483647 free permits"
    }
    a_change_is_undone_once {
        "hear c"
        "SET p 3"
        "SET r 7~x"
        "SET r x"
        "cancel p m r / 7 60000 -> 0 | p=3 r=7 0 0 /60000"
        "semaphore/acquire p m r / 8 60000 2 -> 1 1 2 none | p=1 r=8 1 2 none/60000"
        "cancel p m r / 8 50000 -> 1 | p=3 r=8 0 0 /50000 | c=3"
        "cancel p m r / 8 60000 -> 0 | p=3 r=8 0 0 /60000"
        "semaphore/change p m r / 9 60000 2 always -> 1 | p=5 r=9 1 -2 none/60000 | c=5"
        "cancel p m r / 9 60000 -> 1 | p=3 r=9 0 0 /60000"
        "semaphore/acquire p m r / 10 60000 1 -> 1 1 1 none | p=2 r=10 1 1 none/60000"
        "SET p -1"
        "cancel p m r / 10 60000 -> 1 | p=0 r=10 0 0 /60000"
        "semaphore/change p m r / 11 60000 9 always -> 1 | p=9 r=11 1 -9 none/60000 | c=9"
        "SET m life"
        "cancel p m r / 11 60000 -> 1 | m=life p=9 r=11 0 0 /60000"
        "semaphore/acquire p m r / 12 60000 1 -> 1 1 1 life | m=life p=8 r=12 1 1 life/60000"
        "DEL p"
        "cancel p m r / 12 60000 -> 1 | m=life r=12 0 0 /60000"
        "wait 0"
        "cancel p m r / 13 1 -> 0 | m=life r=13 0 0 /1"
    }
    a_latch_opens_once {
        "hear c"
        "latch/count_down l e r / 1 60000 -> 0"
        "latch/set l r / 1 60000 2 -> 1 | l=2 r=1 1 0 /60000 | c=1"
        "latch/set l r / 1 60000 2 -> 1"
        "latch/set l r / 2 60000 2 -> 0"
        "latch/count_down l e r / 3 60000 -> 1 1 | l=1 r=3 1 1 /60000"
        "latch/count_down l e r / 3 60000 -> 1 1"
        "latch/inspect l e -> 1 1"
        "latch/count_down l e r / 4 60000 -> 1 0 | e=sec.123000 opened/86400000 r=4 0 1 /60000 | c=0"
        "latch/count_down l e r / 4 60000 -> 1 0"
        "latch/inspect l e -> 1 0 sec.123000 opened"
        "SET l -5"
        "wait 1000"
        "latch/count_down l e s / 5 60000 -> 1 0 | e=sec.123000 opened/86400000 r=4 0 1 /59000 s=5 0 1 sec-1.123000 \
          opened/60000 | c=0"
    }
    a_latch_is_deleted_once {
        "hear c"
        "latch/delete l e r / 1 60000 -> 0"
        "SET l 2"
        "latch/delete l e r / 1 60000 -> 1 | e=sec.123000 deleted/86400000 r=1 1 0 /60000 | c=0"
        "latch/delete l e r / 1 60000 -> 1"
        "latch/delete l e r / 2 60000 -> 0"
    }
    a_count_is_undone_once {
        "SET l 5"
        "latch/cancel l e r / 1 60000 -> 0 | l=5 r=1 0 0 /60000"
        "latch/count_down l e r / 1 60000 -> 1 0"
        "latch/count_down l e r / 2 60000 -> 1 4 | l=4 r=2 4 1 /60000"
        "latch/cancel l e r / 2 50000 -> 1 | l=5 r=2 0 0 /50000"
        "latch/count_down l e r / 3 60000 -> 1 4 | l=4 r=3 4 1 /60000"
        "SET e other"
        "latch/cancel l e r / 3 60000 -> 0 | e=other l=4 r=3 0 0 /60000"
        "latch/count_down l e r / 4 60000 -> 1 3 | e=other l=3 r=4 3 1 other/60000"
        "DEL l"
        "latch/cancel l e r / 4 60000 -> 0 | e=other r=4 0 0 /60000"
    }
    what_is_no_latch_is_left_alone {
        "HSET l a 1"
        "latch/set l r / 1 60000 2 -> 4 WRONGTYPE*"
        "latch/count_down l e r / 1 60000 -> 4 WRONGTYPE*"
        "latch/delete l e r / 1 60000 -> 4 WRONGTYPE*"
        "latch/cancel l e r / 1 60000 -> 4 WRONGTYPE*"
        "latch/inspect l e -> 4 WRONGTYPE*"
        "DEL l"
        "SET l x1"
        "latch/set l r / 1 60000 2 -> 4 its value is no number"
        "latch/count_down l e r / 1 60000 -> 4 its value is no number"
        "latch/delete l e r / 1 60000 -> 4 its value is no number"
        "latch/inspect l e -> 4 its value is no number"
        "DEL l"
        "latch/inspect l e -> 1 0"
        "latch/set l r / 1 1e30 2 -> 6 ERR value is not an integer*"
    }
    permits_with_ids_are_taken_once {
        "SET p 4"
        "permit_semaphore/acquire p x r / 1 60000 5000~id:a -> 1 1 | p=3 r=1 1 0 /60000 x(<a>:now+5000)"
        "wait 1000"
        "permit_semaphore/acquire p x r / 1 60000 5000~id:a -> 1 1 | p=3 r=1 1 0 /60000 x(<a>:now+4000)"
        "permit_semaphore/acquire p x r / 2 60000 6000~id:bc 3000~id:d 1000~id:e -> 1 2 | p=0 r=2 2 0 /60000 \
          x(<d>:now+3000 <a>:now+4000 <b>:now+6000 <c>:now+6000)"
        "permit_semaphore/acquire p x r / 3 60000 1000~id:e -> 0 3000"
        "permit_semaphore/inspect p x -> 1 0 4"
        "wait 3000"
        "permit_semaphore/inspect p x -> 1 1 3"
    }
    permits_that_expired_are_free {
        "hear c"
        "SET p 0"
        "ZADD x now aaaaaaaaaaaaaaaa now bbbbbbbbbbbbbbbb now+9000 cccccccccccccccc"
        "permit_semaphore/acquire p x r / 1 60000 5000~id:d -> 1 1 | p=1 r=1 1 0 /60000 x(<d>:now+5000 <c>:now+9000) \
          | c=1"
        "wait 9000"
        "permit_semaphore/acquire p x r / 2 60000 5000~id:e -> 1 1 | p=2 r=2 1 0 /60000 x(<e>:now+5000) | c=2"
        "permit_semaphore/acquire p x r / 3 60000 5000~id:f -> 1 1 | p=1 r=3 1 0 /60000 x(<e>:now+5000 <f>:now+5000)"
    }
    a_permit_is_live_for_its_last_millisecond {
        "hear c"
        "wait 0"
        "SET p 1"
        "ZADD x now+1 aaaaaaaaaaaaaaaa"
        "permit_semaphore/acquire p x r / 1 60000 5000~id:b -> 1 1 | p=0 r=1 1 0 /60000 x(<a>:now+1 <b>:now+5000)"
        "permit_semaphore/acquire p x r / 2 60000 5000~id:c -> 0 1"
        "wait 1"
        "permit_semaphore/acquire p x r / 2 60000 5000~id:c -> 1 1 | p=0 r=2 1 0 /60000 x(<b>:now+4999 <c>:now+5000)"
    }
    what_is_freed_may_not_be_enough {
        "hear c"
        "SET p 0"
        "ZADD x now aaaaaaaaaaaaaaaa now+700 bbbbbbbbbbbbbbbb"
        "permit_semaphore/acquire p x r / 1 60000 5000~id:cd -> 0 700 | p=1 x(<b>:now+700) | c=1"
        "permit_semaphore/acquire p x r / 2 60000 5000~id:cd -> 0 700"
        "DEL x"
        "permit_semaphore/acquire p x r / 2 60000 5000~id:cd -> 0 -1"
        "ZADD x 922337203685476 aaaaaaaaaaaaaaaa"
        "permit_semaphore/acquire p x r / 2 60000 5000~id:cd -> 0 *"
        "ZADD x 922337203685477 aaaaaaaaaaaaaaaa"
        "permit_semaphore/acquire p x r / 2 60000 5000~id:cd -> 0 -1"
    }
    expiries_end_with_their_semaphore {
        "SET p 2 PX 9000"
        "permit_semaphore/acquire p x r / 1 60000 5000~id:a -> 1 1 | p=1/9000 r=1 1 0 /60000 x(<a>:now+5000)/9000"
    }
    expiries_end_with_a_semaphore_that_ends_at_once {
        "wait 0"
        "SET p 2 PX 1"
        "permit_semaphore/acquire p x r / 1 60000 5000~id:a -> 1 1 | p=1/1 r=1 1 0 /60000 x(<a>:now+5000)/1"
    }
    a_refused_acquisition_takes_no_ids {
        "SET p 5"
        "permit_semaphore/acquire p x r / 1 1e30 5000~id:a -> 6 ERR value is not an integer*"
        "SET p 99999999999999999999"
        "permit_semaphore/acquire p x r / 1 60000 5000~id:a -> 6 ERR value is not an integer*"
    }
    what_is_no_permit_semaphore_is_left_alone {
        "permit_semaphore/acquire p x r / 1 60000 5000~id:a -> 0 -1"
        "permit_semaphore/inspect p x -> 0"
        "HSET p a 1"
        "permit_semaphore/acquire p x r / 1 60000 5000~id:a -> 4 WRONGTYPE*"
        "permit_semaphore/cancel p x r / 1 60000 id:a -> 4 WRONGTYPE*"
        "permit_semaphore/release p x r / 1 60000 id:a 1 -> 4 WRONGTYPE*"
        "permit_semaphore/set p x r / 1 60000 5 -> 4 WRONGTYPE*"
        "permit_semaphore/inspect p x -> 4 WRONGTYPE*"
        "DEL p"
        "SET p 3"
        "SET x x"
        "permit_semaphore/acquire p x r / 1 60000 5000~id:a -> 4 WRONGTYPE*"
        "permit_semaphore/cancel p x r / 1 60000 id:a -> 4 WRONGTYPE*"
        "permit_semaphore/release p x r / 1 60000 id:a 1 -> 4 WRONGTYPE*"
        "permit_semaphore/set p x r / 1 60000 5 -> 4 WRONGTYPE*"
        "permit_semaphore/inspect p x -> 4 WRONGTYPE*"
        "permit_semaphore/extend x / id:a 5000 -> 4 WRONGTYPE*"
        "permit_semaphore/renew x / id:a 5000 -> 1 0"
        "DEL x"
        "SET p many"
        "permit_semaphore/acquire p x r / 1 60000 5000~id:a -> 4 its value is no number"
        "permit_semaphore/set p x r / 1 60000 5 -> 4 its value is no number"
        "permit_semaphore/inspect p x -> 4 its value is no number"
    }
    permits_are_given_back_once {
        "hear c"
        "SET p 1"
        "ZADD x now+9000 aaaaaaaaaaaaaaaa now+9000 bbbbbbbbbbbbbbbb now cccccccccccccccc"
        "permit_semaphore/release p x r / 1 60000 id:ac 1 -> 3"
        "permit_semaphore/release p x r / 1 60000 id:ad 1 -> 3"
        "permit_semaphore/release p x r / 1 60000 id:c 0 -> 3"
        "permit_semaphore/release p x r / 1 60000 id:d 0 -> 3"
        "permit_semaphore/release p x r / 1 60000 id:ad 0 -> 1 1 | p=2 r=1 1 0 /60000 x(<c>:now <b>:now+9000) | c=2"
        "permit_semaphore/release p x r / 1 60000 id:ad 0 -> 1 1"
        "permit_semaphore/release p x r / 2 60000 id:bc 0 -> 1 1 | p=4 r=2 1 0 /60000 | c=4"
        "SET p -3"
        "ZADD x now+9000 aaaaaaaaaaaaaaaa now+9000 bbbbbbbbbbbbbbbb"
        "permit_semaphore/release p x r / 3 60000 id:ab 1 -> 1 2 | p=-1 r=3 2 0 /60000"
        "ZADD x now+9000 aaaaaaaaaaaaaaaa"
        "permit_semaphore/release p x r / 4 60000 id:a 1 -> 1 1 | p=0 r=4 1 0 /60000"
        "ZADD x now+9000 aaaaaaaaaaaaaaaa"
        "DEL p"
        "permit_semaphore/release p x r / 5 60000 id:a 1 -> 1 1 | r=5 1 0 /60000"
    }
    ids_are_undone_once {
        "hear c"
        "SET p 1"
        "ZADD x now+5 aaaaaaaaaaaaaaaa now cccccccccccccccc"
        "permit_semaphore/cancel p x r / 1 60000 id:ac -> 1 | p=3 r=1 0 0 /60000 | c=3"
        "permit_semaphore/cancel p x r / 1 60000 id:ac -> 0"
        "permit_semaphore/acquire p x r / 1 60000 5000~id:a -> 0 -1"
        "SET p -1"
        "ZADD x now+5 aaaaaaaaaaaaaaaa"
        "permit_semaphore/cancel p x r / 2 60000 id:a -> 1 | p=0 r=2 0 0 /60000"
        "DEL p"
        "ZADD x now+5 aaaaaaaaaaaaaaaa"
        "permit_semaphore/cancel p x r / 3 60000 id:a -> 0 | r=3 0 0 /60000"
        "permit_semaphore/cancel p x r / 3 1e30 id:a -> 6 ERR value is not an integer*"
    }
    the_number_is_set {
        "hear c"
        "permit_semaphore/set p x r / 1 60000 5 -> 1 | p=5 r=1 1 0 /60000 | c=5"
        "permit_semaphore/set p x r / 1 60000 7 -> 1"
        "ZADD x now aaaaaaaaaaaaaaaa now+5 bbbbbbbbbbbbbbbb"
        "permit_semaphore/set p x r / 2 60000 9 -> 1 | p=7 r=2 1 0 /60000 x(<a>:now <b>:now+5) | c=7"
        "permit_semaphore/set p x r / 3 60000 9 -> 1 | p=7 r=3 1 0 /60000 x(<a>:now <b>:now+5)"
        "permit_semaphore/set p x r / 4 60000 1 -> 1 | p=-1 r=4 1 0 /60000 x(<a>:now <b>:now+5)"
        "permit_semaphore/set p x r / 5 60000 2 -> 1 | p=0 r=5 1 0 /60000 x(<a>:now <b>:now+5)"
        "permit_semaphore/set p x r / 6 60000 3 -> 1 | p=1 r=6 1 0 /60000 x(<a>:now <b>:now+5) | c=1"
        "permit_semaphore/set p x r / 7 1e30 9 -> 6 ERR value is not an integer*"
    }
    leases_of_ids_are_set_exactly {
        "permit_semaphore/extend x / id:a 0 -> 3"
        "ZADD x now+9000 aaaaaaaaaaaaaaaa now+3000 bbbbbbbbbbbbbbbb now+5000 cccccccccccccccc now dddddddddddddddd"
        "permit_semaphore/extend x / id:abc 0 -> 1 3000"
        "permit_semaphore/extend x / id:ad 0 -> 3"
        "permit_semaphore/extend x / id:ae 9000 -> 3"
        "permit_semaphore/extend x / id:ab 4000 -> 1 4000 | x(<d>:now <a>:now+4000 <b>:now+4000 <c>:now+5000)"
        "permit_semaphore/extend x / id:a 1 -> 1 1 | x(<d>:now <a>:now+1 <b>:now+4000 <c>:now+5000)"
    }
    leases_of_ids_only_grow {
        "ZADD x now+9000 aaaaaaaaaaaaaaaa now+3000 bbbbbbbbbbbbbbbb now+5000 cccccccccccccccc now dddddddddddddddd"
        "permit_semaphore/renew x x x x / id:ab 4000 id:cd 9000 id:a 1000 id:e 9000 -> 1 1 0 1 0 | x(<d>:now \
          <b>:now+4000 <c>:now+5000 <a>:now+9001)"
    }
    five_hundred_are_taken_in_a_call_at_most {
        "SET p 500"
        "permit_semaphore/acquire p x r / 1 60000 5000~id:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\
          aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\
          aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\
          aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\
          aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\
          aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa -> \
          1 1 | p=0 r=1 1 0 /60000 x(<a>:now+5000)"
        "SET p 600"
        "permit_semaphore/acquire p x r / 2 60000 5000~id:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\
          aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\
          aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\
          aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa \
          5000~id:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\
          aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\
          aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\
          aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa -> \
          1 1 | p=300 r=2 1 0 /60000 x(<a>:now+5000)"
        "SET p 501"
        "permit_semaphore/acquire p x r / 3 60000 5000~id:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\
          aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\
          aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\
          aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\
          aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\
          aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\
          a -> 0 -3"
    }
}
