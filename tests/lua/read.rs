//! The scripts of a read/write lock's readers.

crate::lua::stories! {
    it_is_read_once {
        "read/acquire k w t n / o 5000 0 o:write -> 1 | k{mode=read o=1}/5000 {k}:o:rwlock_timeout:1=1/5000"
        "wait 1000"
        "read/acquire k w t n / o 5000 0 o:write -> 1 | k{mode=read o=1}/5000 {k}:o:rwlock_timeout:1=1/5000"
        "read/acquire k w t n / o 1000 0 o:write -> 1"
    }
    a_tagged_name_is_the_tag {
        "read/acquire {k} w t n / o 5000 0 o:write -> 1 | {k}{mode=read o=1}/5000 {k}:o:rwlock_timeout:1=1/5000"
    }
    it_is_read_more_than_once {
        "HSET k mode read o 1"
        "PEXPIRE k 5000"
        "SET {k}:o:rwlock_timeout:1 1 PX 5000"
        "read/acquire k w t n / o 9000 1 o:write -> 1 | k{mode=read o=2}/9000 {k}:o:rwlock_timeout:1=1/9000 \
          {k}:o:rwlock_timeout:2=1/9000"
        "read/acquire k w t n / o 3000 2 o:write -> 1 | k{mode=read o=3}/9000 {k}:o:rwlock_timeout:1=1/9000 \
          {k}:o:rwlock_timeout:2=1/9000 {k}:o:rwlock_timeout:3=1/3000"
        "read/acquire k w t n / o 3000 2 o:write -> 1"
        "read/acquire k w t n / o 3000 1 o:write -> 5 3"
        "read/acquire k w t n / o 3000 4 o:write -> 5 3"
        "read/acquire k w t n / q 3000 1 q:write -> 3"
    }
    a_copy_lengthens_the_hold_of_its_own {
        "HSET k mode read o 2"
        "PEXPIRE k 9000"
        "SET {k}:o:rwlock_timeout:1 1 PX 9000"
        "SET {k}:o:rwlock_timeout:2 1 PX 2000"
        "read/acquire k w t n / o 5000 1 o:write -> 1 | k{mode=read o=2}/9000 {k}:o:rwlock_timeout:1=1/9000 \
          {k}:o:rwlock_timeout:2=1/5000"
    }
    an_exclusive_lock_of_its_owner_and_name_is_another_lock {
        "HSET k mode read o 1"
        "PEXPIRE k 5000"
        "SET {k}:o:rwlock_timeout:1 1 PX 5000"
        "reentrant/acquire k / o 5000 0 -> 0 5000"
        "reentrant/settle k / o 0 -> 3"
        "fair/acquire k q t s b / o 5000 0 0 -> 0 5000"
        "fair/settle k q t s b / o 0 0 -> 3"
    }
    readers_are_together {
        "HSET k mode read x 1"
        "PEXPIRE k 9000"
        "SET {k}:x:rwlock_timeout:1 1 PX 9000"
        "read/acquire k w t n / o 3000 0 o:write -> 1 | k{mode=read o=1 x=1}/9000 {k}:o:rwlock_timeout:1=1/3000 \
          {k}:x:rwlock_timeout:1=1/9000"
    }
    a_reader_whose_leases_ended_begins_anew {
        "HSET k mode read o 3"
        "read/acquire k w t n / o 3000 1 o:write -> 3"
        "read/acquire k w t n / o 3000 0 o:write -> 1 | k{mode=read o=1}/3000 {k}:o:rwlock_timeout:1=1/3000"
        "HSET k o many"
        "read/acquire k w t n / o 3000 0 o:write -> 5 many"
    }
    a_later_hold_keeps_a_reader {
        "HSET k mode read o 3"
        "SET {k}:o:rwlock_timeout:3 1"
        "read/acquire k w t n / o 3000 2 o:write -> 1 | k{mode=read o=3}/3000 {k}:o:rwlock_timeout:1=1/3000 \
          {k}:o:rwlock_timeout:3=1/3000"
        "DEL {k}:o:rwlock_timeout:1 {k}:o:rwlock_timeout:3"
        "SET {k}:o:rwlock_timeout:2 1"
        "read/extend k n / o 0 -> 1 3000"
        "HSET k o 1"
        "read/extend k n / o 0 -> 3"
        "HSET k o 0"
        "SET {k}:o:rwlock_timeout:1 1"
        "read/extend k n / o 0 -> 3"
    }
    writers_keep_readers_out {
        "HSET k mode write x:write 1"
        "PEXPIRE k 700"
        "read/acquire k w t n / o 5000 0 o:write -> 0 700"
        "read/acquire k w t n / o 5000 1 o:write -> 3"
        "HSET k write_end @now+300"
        "DEL k"
        "HSET k x 1"
        "read/acquire k w t n / o 5000 0 o:write -> 0 -1"
    }
    a_write_hold_that_is_over_does_not {
        "read/acquire k w t n / o 700 0 o:write -> 1 | k{mode=read o=1}/700 {k}:o:rwlock_timeout:1=1/700"
        "write/extend k n / x:write 0 -> 3"
        "DEL k {k}:o:rwlock_timeout:1"
        "write/acquire k w n / x:write 300 0 0 -> 1 | k{mode=write x:write=1}/300"
        "read/acquire k w t n / x 900 0 x:write -> 1 | k{mode=write write_end=@now+300 x=1 x:write=1}/900 \
          {k}:x:rwlock_timeout:1=1/900"
        "read/acquire k w t n / o 500 0 o:write -> 0 301"
        "wait 300"
        "read/acquire k w t n / o 500 0 o:write -> 0 1"
        "wait 1"
        "read/acquire k w t n / o 500 0 o:write -> 1 | k{mode=read o=1 x=1}/599 {k}:o:rwlock_timeout:1=1/500 \
          {k}:x:rwlock_timeout:1=1/599"
    }
    who_writes_may_read {
        "HSET k mode write o:write 1"
        "PEXPIRE k 3000"
        "read/acquire k w t n / o 2000 0 o:write -> 1 | k{mode=write o=1 o:write=1}/3000 {k}:o:rwlock_timeout:1=1/2000"
        "read/acquire k w t n / o 5000 1 o:write -> 1 | k{mode=write o=2 o:write=1 write_end=@now+3000}/5000 \
          {k}:o:rwlock_timeout:1=1/5000 {k}:o:rwlock_timeout:2=1/5000"
        "read/acquire k w t n / o 6000 2 o:write -> 1 | k{mode=write o=3 o:write=1 write_end=@now+3000}/6000 \
          {k}:o:rwlock_timeout:1=1/6000 {k}:o:rwlock_timeout:2=1/5000 {k}:o:rwlock_timeout:3=1/6000"
    }
    a_write_hold_without_ttl_gets_no_end {
        "HSET k mode write o:write 1"
        "read/acquire k w t n / o 2000 0 o:write -> 1 | k{mode=write o=1 o:write=1}/2000 {k}:o:rwlock_timeout:1=1/2000"
    }
    writers_that_wait_go_first {
        "ZADD w now+9000 x:write"
        "PEXPIRE w 1500"
        "read/acquire k w t n / o 5000 0 o:write -> 0 1500"
        "read/admit k w t n / o 5000 -> 1 0"
        "SET t 1"
        "read/acquire k w t n / o 5000 0 o:write -> 1 | k{mode=read o=1}/5000 t=1 w(x:write:now+9000)/1500 \
          {k}:o:rwlock_timeout:1=1/5000"
        "DEL t"
        "wait 0"
        "ZADD w now x:write"
        "read/acquire k w t n / p 5000 0 p:write -> 0 1500"
        "read/acquire k w t n / o 5000 1 o:write -> 1 | k{mode=read o=2}/5000 w(x:write:now)/1500 \
          {k}:o:rwlock_timeout:1=1/5000 {k}:o:rwlock_timeout:2=1/5000"
        "wait 1"
        "read/acquire k w t n / p 4000 0 p:write -> 1 | k{mode=read o=2 p=1}/4999 w(x:write:now-1)/1499 \
          {k}:o:rwlock_timeout:1=1/4999 {k}:o:rwlock_timeout:2=1/4999 {k}:p:rwlock_timeout:1=1/4000"
    }
    what_is_no_set_of_writers_keeps_nobody_out {
        "SET w x"
        "read/acquire k w t n / o 5000 0 o:write -> 1 | k{mode=read o=1}/5000 w=x {k}:o:rwlock_timeout:1=1/5000"
    }
    another_type_is_left_alone {
        "SET k x"
        "read/acquire k w t n / o 5000 0 o:write -> 4 WRONGTYPE*"
        "read/admit k w t n / o 5000 -> 4 WRONGTYPE*"
        "read/release k n / o 5000 1 -> 4 WRONGTYPE*"
        "read/settle k n / o 0 -> 4 WRONGTYPE*"
        "read/extend k n / o 5000 -> 4 WRONGTYPE*"
        "read/force k n / _ -> 4 WRONGTYPE*"
        "read/inspect k n / _ 0 -> 4 WRONGTYPE*"
        "read/renew k {k}:o:rwlock_timeout:1 / o 5000 -> 1 0"
    }
    who_wait_together_come_in_together {
        "read/admit k w t n / o 5000 p 3000 -> 1 1 1 | k{mode=read o=1 p=1}/5000 {k}:o:rwlock_timeout:1=1/5000 \
          {k}:p:rwlock_timeout:1=1/3000"
        "read/admit k w t n / o 5000 p 3000 -> 1 1 1"
        "HSET k p 2 q 1 r 3"
        "read/admit k w t n / o 5000 p 3000 q 2000 r 3000 -> 1 1 0 1 0 | k{mode=read o=1 p=2 q=1 r=3}/5000 \
          {k}:o:rwlock_timeout:1=1/5000 {k}:p:rwlock_timeout:1=1/3000 {k}:q:rwlock_timeout:1=1/2000"
    }
    whose_hold_has_ended_comes_in_anew {
        "HSET k mode read o 1 p 1"
        "SET {k}:p:rwlock_timeout:1 1"
        "ZADD w now+9000 x:write"
        "PEXPIRE w 90000"
        "read/admit k w t n / o 5000 -> 1 0"
        "DEL w"
        "read/admit k w t n / o 5000 -> 1 1 | k{mode=read o=1 p=1}/5000 {k}:o:rwlock_timeout:1=1/5000 \
          {k}:p:rwlock_timeout:1=1"
    }
    who_is_in_is_told_so_beside_a_writer {
        "HSET k mode write o:write 1 o 1"
        "SET {k}:o:rwlock_timeout:1 1"
        "read/admit k w t n / o 5000 p 3000 -> 1 1 0 | k{mode=write o=1 o:write=1}/5000 {k}:o:rwlock_timeout:1=1/5000"
    }
    a_hold_is_given_back {
        "hear c"
        "read/release k n / o 5000 1 -> 3 | | c=0"
        "HSET k mode read o 1 x 1"
        "SET {k}:o:rwlock_timeout:1 1"
        "SET {k}:x:rwlock_timeout:1 1"
        "read/release k n / p 5000 1 -> 3"
        "read/release k n / o 5000 1 -> 1 -1 | k{mode=read x=1} {k}:x:rwlock_timeout:1=1"
        "read/release k n / x 5000 1 -> 1 1 | | c=0"
        "HSET k mode read o 1 x 1"
        "SET {k}:o:rwlock_timeout:1 1"
        "read/release k n / o 5000 1 -> 1 1 | | c=0"
    }
    what_ended_is_not_given_back {
        "hear c"
        "HSET k mode read o 2 x 1"
        "SET {k}:x:rwlock_timeout:1 1"
        "read/release k n / o 5000 2 -> 3 | k{mode=read x=1} {k}:x:rwlock_timeout:1=1"
        "HSET k o 1"
        "DEL {k}:x:rwlock_timeout:1"
        "read/release k n / o 5000 1 -> 3 | | c=0"
    }
    who_is_over_goes_even_behind_one_who_reads {
        "HSET k mode read a 1 o 2"
        "SET {k}:a:rwlock_timeout:1 1"
        "read/release k n / o 5000 2 -> 3 | k{a=1 mode=read} {k}:a:rwlock_timeout:1=1"
    }
    one_of_several_holds_is_given_back {
        "HSET k mode read o 3"
        "PEXPIRE k 5000"
        "SET {k}:o:rwlock_timeout:1 1 PX 5000"
        "SET {k}:o:rwlock_timeout:2 1 PX 5000"
        "SET {k}:o:rwlock_timeout:3 1 PX 4000"
        "read/release k n / o 3000 3 -> 1 -1 | k{mode=read o=2}/5000 {k}:o:rwlock_timeout:1=1/5000 \
          {k}:o:rwlock_timeout:2=1/5000"
        "read/release k n / o 3000 3 -> 1 -1"
        "read/release k n / o 9000 2 -> 1 -1 | k{mode=read o=1}/9000 {k}:o:rwlock_timeout:1=1/9000"
        "read/release k n / o 9000 0 -> 5 1"
        "read/release k n / o 9000 3 -> 5 1"
        "HSET k o many"
        "read/release k n / o 9000 1 -> 5 many"
    }
    what_is_read_in_a_write_hold_is_given_back {
        "hear c"
        "HSET k mode write o:write 1 o 2"
        "PEXPIRE k 3000"
        "SET {k}:o:rwlock_timeout:1 1"
        "SET {k}:o:rwlock_timeout:2 1"
        "read/release k n / o 5000 2 -> 1 -1 | k{mode=write o=1 o:write=1 write_end=@now+3000}/5000 \
          {k}:o:rwlock_timeout:1=1/5000"
        "read/release k n / o 5000 1 -> 1 -1 | k{mode=write o:write=1 write_end=@now+3000}/5000"
    }
    a_count_is_lowered {
        "hear c"
        "read/settle k n / o 0 -> 3"
        "HSET k mode read o 4"
        "SET {k}:o:rwlock_timeout:1 1"
        "SET {k}:o:rwlock_timeout:2 1"
        "SET {k}:o:rwlock_timeout:3 1"
        "SET {k}:o:rwlock_timeout:4 1"
        "read/settle k n / o 4 -> 0"
        "read/settle k n / o 2 -> 1 -1 | k{mode=read o=2} {k}:o:rwlock_timeout:1=1 {k}:o:rwlock_timeout:2=1"
        "read/settle k n / o 1 -> 1 -1 | k{mode=read o=1} {k}:o:rwlock_timeout:1=1"
        "read/settle k n / o 0 -> 1 1 | | c=0"
        "HSET k mode read o many"
        "read/settle k n / o 0 -> 0"
    }
    a_lease_is_set_exactly {
        "read/extend k n / o 5000 -> 3"
        "HSET k mode read o 2"
        "read/extend k n / o 5000 -> 3"
        "SET {k}:o:rwlock_timeout:1 1"
        "SET {k}:o:rwlock_timeout:2 1"
        "read/extend k n / o 5000 -> 1 5000 | k{mode=read o=2}/5000 {k}:o:rwlock_timeout:1=1/5000 \
          {k}:o:rwlock_timeout:2=1/5000"
        "wait 0"
        "read/extend k n / o 1 -> 1 1 | k{mode=read o=2}/1 {k}:o:rwlock_timeout:1=1/1 {k}:o:rwlock_timeout:2=1/1"
        "read/extend k n / o 0 -> 1 1"
        "PEXPIRE k 4000"
        "HSET k x 1"
        "read/extend k n / o 2000 -> 1 4000 | k{mode=read o=2 x=1}/4000 {k}:o:rwlock_timeout:1=1/2000 \
          {k}:o:rwlock_timeout:2=1/2000"
        "read/extend k n / o 6000 -> 1 6000 | k{mode=read o=2 x=1}/6000 {k}:o:rwlock_timeout:1=1/6000 \
          {k}:o:rwlock_timeout:2=1/6000"
    }
    readers_are_ended_by_force {
        "hear c"
        "read/force k n / _ -> 0"
        "HSET k mode read o 2 p 1 q 1"
        "SET {k}:o:rwlock_timeout:2 1"
        "SET {k}:p:rwlock_timeout:1 1"
        "read/force k n / x -> 0"
        "read/force k n / q -> 0"
        "read/force k n / p -> 1 -1 p | k{mode=read o=2 q=1} {k}:o:rwlock_timeout:2=1"
        "read/force k n / o -> 1 1 o | | c=0"
        "HSET k mode read o 2 p 1 q 1"
        "SET {k}:o:rwlock_timeout:2 1"
        "SET {k}:p:rwlock_timeout:1 1"
        "read/force k n / _ -> 1 1 o p | | c=0"
        "HSET k mode read o 1"
        "read/force k n / _ -> 0"
        "HSET k mode write o:write 1"
        "SET {k}:o:rwlock_timeout:1 1"
        "read/force k n / _ -> 0"
        "read/force k n / o -> 0"
    }
    ten_readers_at_most_are_told {
        "HSET k mode read a 1 b 1 c 1 d 1 e 1 f 1 g 1 h 1 i 1 j 1 l 1"
        "SET {k}:a:rwlock_timeout:1 1"
        "SET {k}:b:rwlock_timeout:1 1"
        "SET {k}:c:rwlock_timeout:1 1"
        "SET {k}:d:rwlock_timeout:1 1"
        "SET {k}:e:rwlock_timeout:1 1"
        "SET {k}:f:rwlock_timeout:1 1"
        "SET {k}:g:rwlock_timeout:1 1"
        "SET {k}:h:rwlock_timeout:1 1"
        "SET {k}:i:rwlock_timeout:1 1"
        "SET {k}:j:rwlock_timeout:1 1"
        "SET {k}:l:rwlock_timeout:1 1"
        "read/force k n / _ -> 1 0 a b c d e f g h i j | "
    }
    readers_are_listed {
        "read/inspect k n / _ 0 -> 0"
        "HSET k mode read o 2 p 1 q 1"
        "PEXPIRE k 700"
        "read/inspect k n / _ 0 -> 0"
        "read/inspect k n / o 0 -> 0"
        "SET {k}:o:rwlock_timeout:2 1"
        "SET {k}:p:rwlock_timeout:1 1"
        "read/inspect k n / _ 0 -> 1 700 o 2 p 1"
        "read/inspect k n / o 0 -> 1 700 o 2"
        "read/inspect k n / x 0 -> 0"
    }
    a_hash_without_a_mode_has_no_readers {
        "HSET k o 1"
        "SET {k}:o:rwlock_timeout:1 1"
        "read/inspect k n / _ 0 -> 0"
    }
    readers_are_listed_in_parts {
        "wait 0"
        "HSET k mode read"
        "lua for i = 1, 600 do redis.call('HSET', 'k', 'r' .. i, 1) end"
        "read/inspect k n / _ 0 -> 1 -1 112"
        "SET {k}:r1:rwlock_timeout:1 1"
        "SET {k}:r20:rwlock_timeout:1 1"
        "read/inspect k n / _ 0 -> 1 -1 r1 1 r20 1 112"
        "read/inspect k n / _ 496 -> 0"
        "read/inspect k n / r20 0 -> 1 -1 r20 1"
        "lua for i = 1, 600 do redis.call('HSET', 'k', 'r' .. i, 'x') end"
        "read/inspect k n / _ 0 -> 1 -1 112"
        "lua for i = 1, 600 do redis.call('HSET', 'k', 'r' .. i, 0) end"
        "read/inspect k n / _ 0 -> 1 -1 112"
    }
    who_holds_often_counts_for_more {
        "wait 0"
        "HSET k mode read"
        "lua for i = 1, 600 do redis.call('HSET', 'k', 'r' .. i, 1) end"
        "SET {k}:r1:rwlock_timeout:1 1"
        "HSET k r1 85"
        "read/inspect k n / _ 0 -> 1 -1 r1 85 16"
        "HSET k r1 84"
        "read/inspect k n / _ 0 -> 1 -1 r1 84 32"
    }
    a_hold_counts_for_two_hundred_and_forty {
        "HSET k mode read o 241"
        "SET {k}:o:rwlock_timeout:241 1"
        "read/extend k n / o 0 -> 3"
        "SET {k}:o:rwlock_timeout:240 1"
        "read/extend k n / o 0 -> 1 -1"
    }
    what_is_no_count_has_no_holds {
        "HSET k mode read o 1 x many"
        "SET {k}:o:rwlock_timeout:1 1"
        "SET {k}:x:rwlock_timeout:1 1"
        "read/force k n / _ -> 1 0 o | {k}:x:rwlock_timeout:1=1"
    }
    a_write_hold_whose_lease_is_as_long_needs_no_end {
        "wait 0"
        "HSET k mode write o:write 1"
        "PEXPIRE k 3000"
        "read/acquire k w t n / o 3000 0 o:write -> 1 | k{mode=write o=1 o:write=1}/3000 {k}:o:rwlock_timeout:1=1/3000"
        "read/renew k {k}:o:rwlock_timeout:1 / o 3000 -> 1 1"
    }
    a_write_hold_ends_with_its_lease_though_its_last_millisecond_is_here {
        "HSET k mode write o:write 1"
        "PEXPIRE k 1"
        "wait 1"
        "read/acquire k w t n / o 3000 0 o:write -> 1 | k{mode=write o=1 o:write=1 write_end=@now}/3000 \
          {k}:o:rwlock_timeout:1=1/3000"
    }
    a_write_hold_ends_in_its_last_millisecond {
        "HSET k mode write o:write 1"
        "wait 0"
        "PEXPIRE k 1"
        "read/acquire k w t n / o 3000 0 o:write -> 1 | k{mode=write o=1 o:write=1 write_end=@now+1}/3000 \
          {k}:o:rwlock_timeout:1=1/3000"
    }
    leases_only_grow {
        "HSET k mode read o 2"
        "PEXPIRE k 9000"
        "SET {k}:o:rwlock_timeout:1 1 PX 2000"
        "SET {k}:o:rwlock_timeout:2 1 PX 1000"
        "HSET l mode read o 1"
        "read/renew k {k}:o:rwlock_timeout:1 l {l}:o:rwlock_timeout:1 / o 5000 o 5000 -> 1 1 0 | k{mode=read \
          o=2}/9000 l{mode=read o=1} {k}:o:rwlock_timeout:1=1/5000 {k}:o:rwlock_timeout:2=1/5000"
        "read/renew k {k}:o:rwlock_timeout:1 / o 3000 -> 1 1"
        "read/renew l {l}:o:rwlock_timeout:1 k {k}:o:rwlock_timeout:1 / o 5000 o 9500 -> 1 0 1 | k{mode=read \
          o=2}/9500 l{mode=read o=1} {k}:o:rwlock_timeout:1=1/9500 {k}:o:rwlock_timeout:2=1/9500"
        "read/renew k {k}:x:rwlock_timeout:1 / x 5000 -> 1 0"
    }
    who_entered_very_often_is_renewed_in_part {
        "HSET k mode read o 240 p 240 q 10"
        "lua for i = 1, 490 do redis.call('SET', '{k}:' .. (i <= 240 and 'o' or i <= 480 and 'p' or 'q') .. \
          ':rwlock_timeout:' .. (i - 1) % 240 + 1, '1', 'PX', 60000) end"
        "read/renew k {k}:o:rwlock_timeout:1 k {k}:p:rwlock_timeout:1 k {k}:q:rwlock_timeout:1 / o 90000 p 90000 \
          q 90000 -> 1 1 1 1 | *"
        "lua for i = 1, 490 do local ttl = redis.call('PTTL', '{k}:' .. (i <= 240 and 'o' or i <= 480 and 'p' or 'q') \
          .. ':rwlock_timeout:' .. (i - 1) % 240 + 1) assert((ttl > 60000) == (i <= 488), i .. ' ' .. ttl) end"
    }
    the_hash_outlives_a_renewed_read_hold {
        "HSET k mode write o:write 1 o 1"
        "PEXPIRE k 3000"
        "SET {k}:o:rwlock_timeout:1 1 PX 2000"
        "read/renew k {k}:o:rwlock_timeout:1 / o 5000 -> 1 1 | k{mode=write o=1 o:write=1 write_end=@now+3000}/5000 \
          {k}:o:rwlock_timeout:1=1/5000"
    }
    a_hold_begins_with_its_own_lease {
        "SET {k}:o:rwlock_timeout:1 1 PX 9000"
        "read/acquire k w t n / o 5000 0 o:write -> 1 | k{mode=read o=1}/5000 {k}:o:rwlock_timeout:1=1/5000"
    }
    who_leaves_more_than_one_call_may_look_at_says_so {
        "HSET k mode read o 1 p 300 q 300"
        "PEXPIRE k 5000"
        "SET {k}:o:rwlock_timeout:1 1"
        "read/release k n / o 5000 1 -> 1 0 | k{mode=read q=300}/5000"
    }
}
