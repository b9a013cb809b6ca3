//! The scripts of a read/write lock's writers.

crate::lua::stories! {
    it_is_taken_once {
        "write/acquire k w n / o:write 5000 0 0 -> 1 | k{mode=write o:write=1}/5000"
        "wait 1000"
        "write/acquire k w n / o:write 5000 0 0 -> 1 | k{mode=write o:write=1}/5000"
        "write/acquire k w n / o:write 3000 0 0 -> 1"
        "write/acquire k w n / o:write 3000 1 0 -> 1 | k{mode=write o:write=2}/5000"
        "write/acquire k w n / o:write 9000 2 0 -> 1 | k{mode=write o:write=3}/9000"
        "write/acquire k w n / o:write 9000 1 0 -> 5 3"
        "write/acquire k w n / o:write 9000 4 0 -> 5 3"
        "write/acquire k w n / x:write 9000 1 0 -> 3"
        "write/acquire k w n / x:write 9000 0 0 -> 0 9000"
    }
    a_hold_that_is_over_is_not_entered {
        "HSET k mode write o:write 1 write_end @9"
        "write/acquire k w n / o:write 9000 1 0 -> 3 | k{mode=read}"
    }
    another_type_is_left_alone {
        "SET k x"
        "write/acquire k w n / o:write 5000 0 0 -> 4 WRONGTYPE*"
        "write/release k w t n / o:write 5000 1 -> 4 WRONGTYPE*"
        "write/settle k w t n / o:write 0 -> 4 WRONGTYPE*"
        "write/extend k n / o:write 5000 -> 4 WRONGTYPE*"
        "write/force k w t n / _ -> 4 WRONGTYPE*"
        "write/inspect k -> 4 WRONGTYPE*"
        "write/renew k / o:write 5000 -> 1 0"
        "DEL k"
        "HSET k o 1"
        "write/acquire k w n / o:write 5000 0 0 -> 0 -1"
        "write/inspect k -> 0"
        "write/force k w t n / _ -> 0"
    }
    a_refused_lease_takes_nothing {
        "write/acquire k w n / o:write 1e30 0 0 -> 6 ERR value is not an integer* | "
        "HSET k mode write o:write 1"
        "PEXPIRE k 500"
        "write/acquire k w n / o:write 1e30 1 0 -> 6 ERR value is not an integer*"
    }
    living_readers_keep_it {
        "HSET k mode read o 1 x 1"
        "PEXPIRE k 700"
        "SET {k}:x:rwlock_timeout:1 1"
        "write/acquire k w n / o:write 5000 0 0 -> 0 700 | k{mode=read x=1}/700 {k}:x:rwlock_timeout:1=1"
        "DEL {k}:x:rwlock_timeout:1"
        "write/acquire k w n / o:write 5000 0 0 -> 1 | k{mode=write o:write=1}/5000"
    }
    who_waits_has_a_place {
        "HSET k mode write o:write 1"
        "PEXPIRE k 5000"
        "ZADD w now-1 old:write"
        "write/acquire k w n / x:write 5000 0 2000 -> 0 5000 | k{mode=write o:write=1}/5000 w(#x:write:-us \
          x:write:now+2000)/2000"
        "wait 500"
        "write/acquire k w n / x:write 5000 0 2000 -> 0 4500 | k{mode=write o:write=1}/4500 w(#x:write:-us-500000 \
          x:write:now+2000)/2000"
        "write/acquire k w n / y:write 5000 0 1000 -> 0 4500 | k{mode=write o:write=1}/4500 w(#x:write:-us-500000 \
          #y:write:-us y:write:now+1000 x:write:now+2000)/2000"
        "DEL k"
        "write/acquire k w n / y:write 5000 0 0 -> 0 2000"
        "write/acquire k w n / x:write 5000 0 2000 -> 1 | k{mode=write x:write=1}/5000 w(#y:write:-us \
          y:write:now+1000)/2000"
    }
    who_came_before_and_is_gone_keeps_nobody {
        "wait 0"
        "ZADD w -8000000000000000 #x:write"
        "ZADD w now x:write"
        "ZADD w -7000000000000000 #y:write"
        "ZADD w now+900 y:write"
        "write/acquire k w n / y:write 5000 0 0 -> 0 0"
        "wait 1"
        "write/acquire k w n / y:write 5000 0 0 -> 1 | k{mode=write y:write=1}/5000"
        "SET w x"
        "DEL k"
        "write/acquire k w n / y:write 5000 0 0 -> 1 | k{mode=write y:write=1}/5000 w=x"
    }
    a_place_without_a_wait_keeps_nobody {
        "ZADD w -8000000000000000 #x:write"
        "write/acquire k w n / y:write 5000 0 0 -> 1 | k{mode=write y:write=1}/5000"
    }
    it_is_given_back {
        "hear c"
        "HSET k mode write o:write 1 write_end @now"
        "write/release k w t n / x:write 5000 1 -> 3"
        "write/release k w t n / o:write 5000 1 -> 1 1 | | c=1 c=0"
        "write/release k w t n / o:write 5000 1 -> 3 | | c=1 c=0"
    }
    nobody_hears_of_it {
        "wait 0"
        "HSET k mode write o:write 1"
        "ZADD w now+9000 x:write"
        "write/release k w t n / o:write 5000 1 -> 1 0 | t=1/100 w(x:write:now+9000)"
    }
    what_it_nested_reads_on {
        "HSET k mode write o:write 1 o 1"
        "PEXPIRE k 700"
        "SET {k}:o:rwlock_timeout:1 1"
        "write/release k w t n / o:write 5000 1 -> 1 0 | k{mode=read o=1}/700 {k}:o:rwlock_timeout:1=1"
        "HSET k mode write o:write 1"
        "DEL {k}:o:rwlock_timeout:1"
        "write/release k w t n / o:write 5000 1 -> 1 0 | "
    }
    an_inner_hold_is_given_back_once {
        "HSET k mode write o:write 3"
        "PEXPIRE k 5000"
        "write/release k w t n / o:write 3000 3 -> 1 -1 | k{mode=write o:write=2}/5000"
        "write/release k w t n / o:write 3000 3 -> 1 -1"
        "write/release k w t n / o:write 9000 2 -> 1 -1 | k{mode=write o:write=1}/9000"
        "write/release k w t n / o:write 9000 0 -> 5 1"
        "write/release k w t n / o:write 9000 3 -> 5 1"
    }
    its_end_moves_on_beside_a_longer_read_hold {
        "write/acquire k w n / o:write 1000 0 0 -> 1 | k{mode=write o:write=1}/1000"
        "read/acquire k w t n / o 9000 0 o:write -> 1 | k{mode=write o=1 o:write=1 write_end=@now+1000}/9000 \
          {k}:o:rwlock_timeout:1=1/9000"
        "write/acquire k w n / o:write 500 1 0 -> 1 | k{mode=write o=1 o:write=2 write_end=@now+1000}/9000 \
          {k}:o:rwlock_timeout:1=1/9000"
        "write/acquire k w n / o:write 3000 1 0 -> 1 | k{mode=write o=1 o:write=2 write_end=@now+3000}/9000 \
          {k}:o:rwlock_timeout:1=1/9000"
        "write/release k w t n / o:write 4000 2 -> 1 -1 | k{mode=write o=1 o:write=1 write_end=@now+4000}/9000 \
          {k}:o:rwlock_timeout:1=1/9000"
        "write/renew k / o:write 5000 -> 1 1 | k{mode=write o=1 o:write=1 write_end=@now+5000}/9000 \
          {k}:o:rwlock_timeout:1=1/9000"
        "write/renew k / o:write 2000 -> 1 1"
        "write/extend k n / o:write 0 -> 1 5001"
        "write/inspect k -> 1 5001 o:write 1"
        "write/extend k n / o:write 2000 -> 1 2001 | k{mode=write o=1 o:write=1 write_end=@now+2000}/9000 \
          {k}:o:rwlock_timeout:1=1/9000"
        "write/extend k n / o:write 9000 -> 1 9000 | k{mode=write o=1 o:write=1}/9000 {k}:o:rwlock_timeout:1=1/9000"
        "write/extend k n / o:write 1 -> 1 2 | k{mode=write o=1 o:write=1 write_end=@now+1}/9000 \
          {k}:o:rwlock_timeout:1=1/9000"
        "wait 1"
        "write/extend k n / o:write 0 -> 1 1"
        "wait 1"
        "write/extend k n / o:write 0 -> 3"
        "write/renew k / o:write 5000 -> 1 0"
        "write/inspect k -> 0"
        "write/force k w t n / _ -> 0 | k{mode=read o=1}/8998 {k}:o:rwlock_timeout:1=1/8998"
    }
    a_hash_with_very_many_fields_is_no_write_hold {
        "HSET k mode write o:write 1"
        "lua for i = 1, 98 do redis.call('HSET', 'k', i, 0) end"
        "write/extend k n / o:write 0 -> 1 -1"
        "write/inspect k -> 1 -1 o:write 1"
        "HSET k one-more 0"
        "write/extend k n / o:write 0 -> 4 its hash has too many fields"
        "write/inspect k -> 4 its hash has too many fields"
        "write/force k w t n / _ -> 4 its hash has too many fields"
        "HSET k write_end @9"
        "read/force k n / _ -> 0"
    }
    who_waits_for_a_moment_has_a_place {
        "HSET k mode write o:write 1"
        "PEXPIRE k 5000"
        "wait 0"
        "write/acquire k w n / x:write 5000 0 1 -> 0 5000 | k{mode=write o:write=1}/5000 w(#x:write:-us \
          x:write:now+1)/1"
    }
    a_count_is_lowered {
        "hear c"
        "HSET k mode write o:write 3"
        "write/settle k w t n / o:write 3 -> 0"
        "write/settle k w t n / o:write 1 -> 1 -1 | k{mode=write o:write=1}"
        "write/settle k w t n / o:write 0 -> 1 1 | | c=1 c=0"
        "HSET k mode write o:write many"
        "write/settle k w t n / o:write 0 -> 0"
    }
    who_gives_up_lets_others_in {
        "hear c"
        "write/settle k w t n / o:write 0 -> 3"
        "ZADD w now o:write -8000000000000000 #o:write"
        "write/settle k w t n / o:write 0 -> 3 | | c=1"
        "ZADD w now o:write now x:write"
        "write/settle k w t n / o:write 0 -> 3 | w(x:write:now) | c=1"
        "HSET k mode read r 1"
        "ZADD w now o:write"
        "write/settle k w t n / o:write 0 -> 3 | k{mode=read r=1} w(x:write:now)"
        "DEL w"
        "ZADD w now o:write"
        "write/settle k w t n / o:write 0 -> 3 | k{mode=read r=1} | c=1"
        "HSET k mode write"
        "ZADD w now o:write"
        "write/settle k w t n / o:write 0 -> 3 | k{mode=write r=1}"
        "SET w x"
        "DEL k"
        "write/settle k w t n / o:write 0 -> 3"
    }
    a_lease_is_set_exactly {
        "write/extend k n / o:write 5000 -> 3"
        "HSET k mode write o:write 1"
        "write/extend k n / o:write 5000 -> 1 5000 | k{mode=write o:write=1}/5000"
        "wait 0"
        "write/extend k n / o:write 1 -> 1 1 | k{mode=write o:write=1}/1"
        "write/extend k n / o:write 0 -> 1 1"
        "write/extend k n / x:write 5000 -> 3"
    }
    it_is_ended_by_force {
        "hear c"
        "write/force k w t n / _ -> 0"
        "HSET k mode write o:write 1"
        "write/force k w t n / x:write -> 0"
        "write/force k w t n / o:write -> 1 1 o:write | | c=1 c=0"
        "HSET k mode write o:write:t1 1 o:t1 1"
        "write/force k w t n / _ -> 1 1 o:write:t1 | | c=1 c=0"
        "HSET k mode write o 1 writer 1"
        "write/force k w t n / _ -> 0"
        "HSET k mode read o:write 1"
        "write/force k w t n / _ -> 0"
    }
    it_is_looked_at {
        "write/inspect k -> 0"
        "HSET k mode write o:write 2"
        "PEXPIRE k 700"
        "write/inspect k -> 1 700 o:write 2"
        "HSET k mode read"
        "write/inspect k -> 0"
        "HSET k mode write"
        "HDEL k o:write"
        "write/inspect k -> 0"
    }
    leases_only_grow {
        "HSET a mode write o:write 1"
        "PEXPIRE a 1000"
        "HSET b mode write o:write 1"
        "PEXPIRE b 9000"
        "HSET d mode write p:write 1"
        "write/renew a b d d / o:write 5000 o:write 5000 o:write 5000 p:write 7000 -> 1 1 1 0 1 | a{mode=write \
          o:write=1}/5000 b{mode=write o:write=1}/9000 d{mode=write p:write=1}/7000"
    }
    readers_that_one_call_may_not_look_at_are_asked_for_again {
        "HSET k mode read p 300 q 300"
        "PEXPIRE k 5000"
        "write/acquire k w n / o:write 5000 0 0 -> 0 -3 | k{mode=read q=300}/5000"
        "write/acquire k w n / o:write 5000 0 0 -> 1 | k{mode=write o:write=1}/5000"
    }
    writers_that_are_gone_go_a_hundred_a_call {
        "wait 0"
        "HSET k mode write x:write 1"
        "PEXPIRE k 5000"
        "ZADD w now-1 a:write now+0 b:write now-5 c:write"
        "PEXPIRE w 9000"
        "write/acquire k w n / o:write 5000 0 2000 -> 0 5000 | k{mode=write x:write=1}/5000 w(#o:write:-us \
          b:write:now o:write:now+2000)/9000"
        "DEL w"
        "lua for i = 1, 101 do redis.call('ZADD', 'w', i, i) end"
        "PEXPIRE w 9000"
        "write/acquire k w n / o:write 5000 0 2000 -> 0 5000 | k{mode=write x:write=1}/5000 w(#o:write:-us 101:101 \
          o:write:now+2000)/9000"
    }
    who_may_not_have_a_place_waits_without {
        "HSET k mode write x:write 1"
        "PEXPIRE k 5000"
        "SET w x"
        "write/acquire k w n / o:write 5000 0 2000 -> 0 5000"
    }
    a_copy_whose_lease_is_refused_leaves_the_count {
        "HSET k mode write o:write 2"
        "PEXPIRE k 500"
        "write/acquire k w n / o:write 1e30 1 0 -> 6 ERR value is not an integer*"
    }
    a_hundred_dead_readers_go_in_a_call {
        "HSET k mode read"
        "lua for i = 1, 100 do redis.call('HSET', 'k', 'g' .. i, 1) end"
        "write/acquire k w n / o:write 5000 0 0 -> 1 | k{mode=write o:write=1}/5000"
        "DEL k"
        "HSET k mode read"
        "lua for i = 1, 101 do redis.call('HSET', 'k', 'g' .. i, 1) end"
        "write/acquire k w n / o:write 5000 0 0 -> 0 -3 | k{g101=1 mode=read}"
        "DEL k"
        "HSET k mode read"
        "lua for i = 1, 101 do redis.call('HSET', 'k', 'g' .. i, 0) end"
        "write/acquire k w n / o:write 5000 0 0 -> 0 -3 | k{g101=0 mode=read}"
        "DEL k"
        "HSET k mode read"
        "lua for i = 1, 100 do redis.call('HSET', 'k', 'g' .. i, 'x') end"
        "write/acquire k w n / o:write 5000 0 0 -> 1 | k{mode=write o:write=1}/5000"
    }
    a_reader_is_found_wherever_it_stands {
        "HSET k x 1 mode read"
        "SET {k}:x:rwlock_timeout:1 1"
        "write/acquire k w n / o:write 5000 0 0 -> 0 -1"
        "wait 0"
        "DEL k {k}:x:rwlock_timeout:1"
        "HSET k mode read"
        "lua for i = 1, 600 do redis.call('HSET', 'k', 'r' .. i, 1) end"
        "SET {k}:r20:rwlock_timeout:1 1"
        "write/acquire k w n / o:write 5000 0 0 -> 0 -1 | *"
        "lua assert(redis.call('HLEN', 'k') == 582 and redis.call('HGET', 'k', 'r20') == '1')"
    }
    who_waits_without_a_place_keeps_no_writer {
        "ZADD w 9000000000000 x:write"
        "write/acquire k w n / y:write 5000 0 0 -> 1 | k{mode=write y:write=1}/5000 w(x:write:9000000000000)"
    }
    a_hundred_places_of_the_dead_go_in_a_call {
        "lua for i = 1, 101 do redis.call('ZADD', 'w', -i, '#g' .. i) end"
        "write/acquire k w n / o:write 5000 0 0 -> 1 | k{mode=write o:write=1}/5000 w(#g1:-1)"
    }
    its_end_goes_with_it {
        "HSET k mode write o:write 1 write_end @now+4000"
        "PEXPIRE k 5000"
        "write/release k w t n / o:write 5000 1 -> 1 0 | "
        "HSET k mode write o:write 1 o 1 write_end @now+4000"
        "PEXPIRE k 5000"
        "SET {k}:o:rwlock_timeout:1 1"
        "write/release k w t n / o:write 5000 1 -> 1 0 | k{mode=read o=1}/5000 {k}:o:rwlock_timeout:1=1"
    }
}
