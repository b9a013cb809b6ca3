//! What an operator asks: what there is, who holds it and who waits.

crate::lua::stories! {
    nobody_has_a_name_that_is_nothing {
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 none -2   0  -1 0 0 0 -1 -1 -1 -1 -1 0 0 0"
        "hear c c d"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 none -2   0  -1 0 0 0 -1 -1 -1 -1 -1 0 0 0"
        "hear e f g"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 none -2   0  -1 0 0 0 -1 -1 -1 -1 -1 0 0 0"
    }
    a_lock_has_a_holder_a_token_and_waiters {
        "HSET lock c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 2"
        "PEXPIRE lock 5000"
        "SET token 17"
        "SET made 1"
        "SET ended 0-7"
        "RPUSH queue c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:2 00000000-1111-2222-3333-444444444444:3 x"
        "ZADD seen now+0 00000000-1111-2222-3333-444444444444:3 now-1500 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:2"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 lock 5000 hash 17 1 0-7 -1 1 3 0 -1 -1 -1 -1 -1 1 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 2 5000 3 \
          c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:2 1500 00000000-1111-2222-3333-444444444444:3 0 x -1 0"
        "wait 100"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 lock 4900 hash 17 1 0-7 -1 1 3 0 -1 -1 -1 -1 -1 1 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 2 4900 3 \
          c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:2 1600 00000000-1111-2222-3333-444444444444:3 100 x -1 0"
        "HINCRBY lock c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 -1"
        "PERSIST lock"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 lock -1 hash 17 1 0-7 -1 1 3 0 -1 -1 -1 -1 -1 1 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 1 -1 3 \
          c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:2 1600 00000000-1111-2222-3333-444444444444:3 100 x -1 0"
    }
    what_is_beside_may_be_of_another_kind {
        "HSET lock c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 1"
        "HSET token a b"
        "HSET made a b"
        "RPUSH ended x"
        "SET queue x"
        "SET seen x"
        "SET writers x"
        "SET expiries x"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 lock -1 hash  1  -1 1 0 0 -1 -1 -1 -1 -1 1 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 1 -1 0 0"
        "DEL token ended"
        "SET token _"
        "SET ended 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 lock -1 hash _ 1 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef -1 1 0 0 -1 -1 -1 -1 \
          -1 1 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 1 -1 0 0"
        "SET ended 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdefe"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 lock -1 hash _ 1 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef -1 1 0 0 -1 -1 -1 -1 \
          -1 1 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 1 -1 0 0"
    }
    a_hash_is_a_lock_by_its_fields {
        "HSET lock a 1"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 foreign -1 hash  0  -1 0 0 0 -1 -1 -1 -1 -1 0 0 0"
        "DEL lock"
        "HSET lock c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b 1"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 foreign -1 hash  0  -1 0 0 0 -1 -1 -1 -1 -1 0 0 0"
        "DEL lock"
        "HSET lock c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b: 1"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 foreign -1 hash  0  -1 0 0 0 -1 -1 -1 -1 -1 0 0 0"
        "DEL lock"
        "HSET lock 00000000-1111-2222-3333-444444444444:x 1"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 lock -1 hash  0  -1 1 0 0 -1 -1 -1 -1 -1 1 00000000-1111-2222-3333-444444444444:x 1 -1 0 0"
        "DEL lock"
        "HSET lock x:00000000-1111-2222-3333-444444444444:x 1"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 foreign -1 hash  0  -1 0 0 0 -1 -1 -1 -1 -1 0 0 0"
        "DEL lock"
        "HSET lock 000000000-1111-2222-3333-444444444444:x 12345678901234567890"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 lock -1 hash  0  -1 1 0 0 -1 -1 -1 -1 -1 1 000000000-1111-2222-3333-444444444444:x 12345678901234567890 \
          -1 0 0"
        "DEL lock"
        "HSET lock 00000000-1111-2222-3333-444444444444:x 123456789012345678901"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 foreign -1 hash  0  -1 0 0 0 -1 -1 -1 -1 -1 0 0 0"
        "DEL lock"
        "HSET lock 00000000-1111-2222-3333-444444444444:x y"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 lock -1 hash  0  -1 1 0 0 -1 -1 -1 -1 -1 0 0 0"
        "DEL lock"
        "HSET lock 00000000-1111-2222-3333-444444444444:x -1"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 lock -1 hash  0  -1 1 0 0 -1 -1 -1 -1 -1 1 00000000-1111-2222-3333-444444444444:x -1 -1 0 0"
        "DEL lock"
        "HSET lock 00000000-1111-2222-3333-444444444444:x 1 00000000-1111-2222-3333-444444444444:y 1"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 foreign -1 hash  0  -1 0 0 0 -1 -1 -1 -1 -1 0 0 0"
        "DEL lock"
        "HSET lock 00000000-1111-2222-3333-444444444444:x 1 a 1"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 foreign -1 hash  0  -1 0 0 0 -1 -1 -1 -1 -1 0 0 0"
        "DEL lock"
        "HSET lock 00000000-1111-2222-3333-44444444444:x 1"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 foreign -1 hash  0  -1 0 0 0 -1 -1 -1 -1 -1 0 0 0"
        "DEL lock"
        "HSET lock 00000000-1111-222-3333-444444444444:x 1"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 foreign -1 hash  0  -1 0 0 0 -1 -1 -1 -1 -1 0 0 0"
        "DEL lock"
        "HSET lock 00000000_1111-2222-3333-444444444444:x 1"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 foreign -1 hash  0  -1 0 0 0 -1 -1 -1 -1 -1 0 0 0"
        "DEL lock"
        "HSET lock g0000000-1111-2222-3333-444444444444:x 1"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 foreign -1 hash  0  -1 0 0 0 -1 -1 -1 -1 -1 0 0 0"
        "DEL lock"
        "lua redis.call('HSET', 'lock', '00000000-1111-2222-3333-444444444444:' .. string.rep('n', 987), '1')"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 lock -1 hash  0  -1 1 0 0 -1 -1 -1 -1 -1 1 00000000-1111-2222-3333-444444444444:nnnn*"
        "DEL lock"
        "lua redis.call('HSET', 'lock', '00000000-1111-2222-3333-444444444444:' .. string.rep('n', 988), '1')"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 foreign -1 hash  0  -1 0 0 0 -1 -1 -1 -1 -1 0 0 0"
    }
    readers_hold_while_one_of_their_leases_lasts {
        "HSET lock mode read c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 2 00000000-1111-2222-3333-444444444444:2 1 \
          00000000-1111-2222-3333-444444444444:3 1"
        "PEXPIRE lock 9000"
        "SET {lock}:c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1:rwlock_timeout:1 1 PX 3000"
        "SET {lock}:c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1:rwlock_timeout:2 1 PX 9000"
        "SET {lock}:00000000-1111-2222-3333-444444444444:2:rwlock_timeout:1 1"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 read 9000 hash  0  -1 3 0 0 -1 -1 -1 -1 -1 2 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 2 3000 \
          00000000-1111-2222-3333-444444444444:2 1 -1 0 0"
        "wait 2999"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 read 6001 hash  0  -1 3 0 0 -1 -1 -1 -1 -1 2 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 2 1 \
          00000000-1111-2222-3333-444444444444:2 1 -1 0 0"
        "wait 2"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 read 5999 hash  0  -1 3 0 0 -1 -1 -1 -1 -1 2 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 2 5999 \
          00000000-1111-2222-3333-444444444444:2 1 -1 0 0"
        "HSET lock write_end 5"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 read 5999 hash  0  -1 3 0 0 -1 -1 -1 -1 -1 2 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 2 5999 \
          00000000-1111-2222-3333-444444444444:2 1 -1 0 0"
    }
    a_writer_holds_and_reads_inside {
        "HSET lock mode write c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1:write 1 \
          c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 1"
        "lua local time = redis.call('TIME') redis.call('HSET', 'lock', 'write_end', '@' .. string.format('%.0f', \
          time[1] * 1000 + math.floor(time[2] / 1000) + 4000))"
        "PEXPIRE lock 9000"
        "SET {lock}:c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1:rwlock_timeout:1 1 PX 8000"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 write 9000 hash  0  -1 2 0 0 -1 -1 -1 -1 -1 2 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1:write 1 4001 \
          c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 1 8000 0 0"
        "wait 4000"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 write 5000 hash  0  -1 2 0 0 -1 -1 -1 -1 -1 2 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1:write 1 1 \
          c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 1 4000 0 0"
        "HDEL lock write_end"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 write 5000 hash  0  -1 2 0 0 -1 -1 -1 -1 -1 2 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1:write 1 5000 \
          c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 1 4000 0 0"
        "HSET lock mode writes"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 foreign 5000 hash  0  -1 0 0 0 -1 -1 -1 -1 -1 0 0 0"
        "HSET lock mode writ"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 foreign 5000 hash  0  -1 0 0 0 -1 -1 -1 -1 -1 0 0 0"
    }
    writers_wait_in_the_order_in_which_they_came {
        "ZADD writers now+500 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 -9000 \
          =c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 now+1 00000000-1111-2222-3333-444444444444:2 -9500 \
          =00000000-1111-2222-3333-444444444444:2 now-1 00000000-1111-2222-3333-444444444444:3 -9700 \
          =00000000-1111-2222-3333-444444444444:3 -9600 =00000000-1111-2222-3333-444444444444:4"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 none -2   0  -1 0 0 2 -1 -1 -1 -1 -1 0 2 00000000-1111-2222-3333-444444444444:2 -1 \
          c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 -1 0"
        "wait 1"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 none -2   0  -1 0 0 2 -1 -1 -1 -1 -1 0 2 00000000-1111-2222-3333-444444444444:2 -1 \
          c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 -1 0"
        "wait 1"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 none -2   0  -1 0 0 1 -1 -1 -1 -1 -1 0 1 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 -1 0"
        "RPUSH queue c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:9"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 none -2   0  -1 0 1 1 -1 -1 -1 -1 -1 0 2 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:9 -1 \
          c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 -1 0"
    }
    a_string_is_a_number_a_token_or_foreign {
        "SET lock 5"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 number -1 5  0  -1 0 0 0 -1 -1 -1 -1 -1 0 0 0"
        "SET lock -5"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 number -1 -5  0  -1 0 0 0 -1 -1 -1 -1 -1 0 0 0"
        "SET lock 5 PX 1000"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 number 1000 5  0  -1 0 0 0 -1 -1 -1 -1 -1 0 0 0"
        "SET lock 12345678901234567890"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 number -1 12345678901234567890  0  -1 0 0 0 -1 -1 -1 -1 -1 0 0 0"
        "SET lock 123456789012345678901"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 foreign -1 string  0  -1 0 0 0 -1 -1 -1 -1 -1 0 0 0"
        "SET lock 5x"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 foreign -1 string  0  -1 0 0 0 -1 -1 -1 -1 -1 0 0 0"
        "SET lock _"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 foreign -1 string  0  -1 0 0 0 -1 -1 -1 -1 -1 0 0 0"
        "SET lock 0123456789abcdefABCDEF0123456789 PX 1000"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 plain 1000 0123456789abcdefABCDEF0123456789  0  -1 0 0 0 -1 -1 -1 -1 -1 0 0 0"
        "SET lock 0123456789abcdefABCDEF0123456789"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 foreign -1 string  0  -1 0 0 0 -1 -1 -1 -1 -1 0 0 0"
        "SET lock 0123456789abcdefABCDEF012345678 PX 1000"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 foreign 1000 string  0  -1 0 0 0 -1 -1 -1 -1 -1 0 0 0"
        "SET lock 0123456789abcdefABCDEF012345678g PX 1000"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 foreign 1000 string  0  -1 0 0 0 -1 -1 -1 -1 -1 0 0 0"
        "SET lock 0123456789abcdefABCDEF01234567890 PX 1000"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 foreign 1000 string  0  -1 0 0 0 -1 -1 -1 -1 -1 0 0 0"
        "SET lock 11111111111111111111111111111111111111111111111111111111111111111"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 foreign -1 string  0  -1 0 0 0 -1 -1 -1 -1 -1 0 0 0"
    }
    other_types_are_foreign {
        "RPUSH lock a"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 foreign -1 list  0  -1 0 0 0 -1 -1 -1 -1 -1 0 0 0"
        "DEL lock"
        "ZADD lock 1 a"
        "PEXPIRE lock 70"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 foreign 70 zset  0  -1 0 0 0 -1 -1 -1 -1 -1 0 0 0"
    }
    permits_are_taken_until_they_expire {
        "SET lock 3"
        "ZADD expiries now+1000 ab now+2000 ~ now 0a now-5 zz"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 number -1 3  0  2 0 0 0 -1 -1 -1 -1 -1 0 0 2 6162 1000 20 2000"
        "wait 1000"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 number -1 3  0  1 0 0 0 -1 -1 -1 -1 -1 0 0 1 20 1000"
        "wait 1000"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 number -1 3  0  0 0 0 0 -1 -1 -1 -1 -1 0 0 0"
    }
    very_many_are_counted_and_a_hundred_are_shown {
        "lua for i = 1, 101 do redis.call('RPUSH', 'queue', 'o' .. i) redis.call('ZADD', 'expiries', \
          '99999999999999', 'p' .. i) end redis.call('ZADD', 'expiries', '1', 'x')"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 none -2   0  101 0 101 0 -1 -1 -1 -1 -1 0 100 o1 -1 o2 -1 o3 -1 *"
        "DEL queue"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 none -2   0  101 0 0 0 -1 -1 -1 -1 -1 0 0 100 7031 98299999999876 703130 98299999999876 70313030 *"
        "lua for i = 1, 101 do redis.call('ZADD', 'writers', -200 + i, '=w' .. i) redis.call('ZADD', 'writers', \
          '99999999999999', 'w' .. i) end"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 none -2   0  101 0 0 101 -1 -1 -1 -1 -1 0 100 w1 -1 w2 -1 w3 -1 *"
        "lua for i = 1, 101 do redis.call('HSET', 'lock', '00000000-1111-2222-3333-444444444444:' .. i, '1') end \
          redis.call('HSET', 'lock', 'mode', 'read') redis.call('PEXPIRE', 'lock', 5000)"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 read 5000 hash  0  101 101 0 101 -1 -1 -1 -1 -1 0 100 w1 -1 w2 -1 w3 -1 *"
        "lua for i = 1, 101 do redis.call('SET', '{lock}:00000000-1111-2222-3333-444444444444:' .. i .. \
          ':rwlock_timeout:1', '1', 'PX', 5000) end"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 read 5000 hash  0  101 101 0 101 -1 -1 -1 -1 -1 100 00000000-1111-2222-3333-444444444444:1 1 5000 \
          00000000-1111-2222-3333-444444444444:2 1 5000 00000000-1111-2222-3333-444444444444:3 *"
    }
    what_is_no_lock_is_not_listed {
        "admin/list / 0 * 100 -> 1 0 0 0"
        "SET a x"
        "RPUSH b x"
        "HSET d a 1"
        "SET lockson:x 1"
        "SET redisson_x 1"
        "SET {x}:timeout 1"
        "SET {x}:u:rwlock_timeout:1 1"
        "SET e 5 PX 1000"
        "ZADD f 1 a"
        "admin/list / 0 * 100 -> 1 0 9 0"
    }
    locks_are_listed_with_their_holders {
        "HSET a c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 2"
        "PEXPIRE a 5000"
        "HSET b mode read c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 1 00000000-1111-2222-3333-444444444444:2 3"
        "PEXPIRE b 6000"
        "HSET d mode write write_end 5 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1:write 1 \
          c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 4"
        "PEXPIRE d 7000"
        "SET e 0123456789abcdef0123456789abcdef PX 800"
        "SET f 0123456789abcdef0123456789abcdef"
        "admin/list / 0 * 100 -> \
          1 0 5 0 e plain 800 0123456789abcdef0123456789abcdef 0 1 0 d write 7000 \
          c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1:write 1 2 0 a lock 5000 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 \
          2 1 0 b read 6000 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 1 2 0"
        "admin/list / 0 [ab] 100 -> \
          1 0 2 0 a lock 5000 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 2 1 0 b read 6000 \
          c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 1 2 0"
        "admin/list / 0 e 100 -> 1 0 1 0 e plain 800 0123456789abcdef0123456789abcdef 0 1 0"
        "RPUSH redisson_lock_queue:{a} 00000000-1111-2222-3333-444444444444:2 00000000-1111-2222-3333-444444444444:3"
        "admin/list / 0 * 100 -> \
          1 0 6 0 e plain 800 0123456789abcdef0123456789abcdef 0 1 0 d write 7000 \
          c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1:write 1 2 0 a lock 5000 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 \
          2 1 2 b read 6000 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 1 2 0"
        "DEL a"
        "admin/list / 0 * 100 -> \
          1 0 5 0 a queue -1 00000000-1111-2222-3333-444444444444:2 0 0 2 e plain 800 \
          0123456789abcdef0123456789abcdef 0 1 0 d write 7000 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1:write 1 2 0 \
          b read 6000 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 1 2 0"
        "wait 800"
        "admin/list / 0 e 100 -> 1 0 1 0"
    }
    numbers_are_told_by_what_is_beside_them {
        "SET a 5"
        "SET b 6"
        "SET d -7"
        "SET {e}x 8"
        "ZADD {b}:timeout 1 x"
        "SET lockson:semaphore_life:{d} 1"
        "SET lockson:semaphore_life:{e}x 1"
        "admin/list / 0 * 100 -> \
          1 0 7 0 {e}x semaphore -1 8 0 0 0 d semaphore -1 -7 0 0 0 a number -1 5 0 0 0 b permits -1 6 0 0 0"
    }
    a_queue_of_a_free_lock_is_its_lock {
        "RPUSH redisson_lock_queue:{a} c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 \
          00000000-1111-2222-3333-444444444444:2"
        "RPUSH redisson_lock_queue:{b}x 00000000-1111-2222-3333-444444444444:2"
        "RPUSH redisson_lock_queue:{d} x"
        "SET redisson_lock_queue:{e} x"
        "admin/list / 0 * 100 -> \
          1 0 4 0 {b}x queue -1 00000000-1111-2222-3333-444444444444:2 0 0 1 a queue -1 \
          c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 0 0 2"
    }
    a_list_comes_in_pages {
        "lua for i = 10, 40 do redis.call('SET', 'k' .. i, i) end"
        "admin/list / 0 * 10 -> 1 734843147 10 0 k28*"
        "admin/list / 10 * 10 -> 1 734843147 10 0 k28*"
        "SET k10 x"
        "admin/list / 0 * 1 -> 1 550142243 1 0 k28*"
    }
    what_may_not_be_read_is_not_described {
        "HSET lock mode read c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 1"
        "PEXPIRE lock 9000"
        "SET {lock}:c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1:rwlock_timeout:1 1 PX 3000"
        "SET token 17"
        "SET made 1"
        "SET ended 0-7"
        "RPUSH queue c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:2"
        "ZADD seen now-5 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:2"
        "ZADD writers now+500 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 -9000 \
          =c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1"
        "ZADD expiries now+1000 ab"
        "without TYPE admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          6 ERR ACL failure in script: User default has no permissions to run the 'type' command"
        "without PTTL admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          6 ERR ACL failure in script: User default has no permissions to run the 'pttl' command"
        "without HRANDFIELD admin/describe lock token queue seen writers expiries made ended absent / \
          NUMSUB c d e f g -> \
          1 foreign 9000 hash 17 1 0-7 1 0 1 1 -1 -1 -1 -1 -1 0 2 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:2 5 \
          c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 -1 1 6162 1000"
        "without HSTRLEN admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 foreign 9000 hash 17 1 0-7 1 0 1 1 -1 -1 -1 -1 -1 0 2 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:2 5 \
          c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 -1 1 6162 1000"
        "without HGET admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 foreign 9000 hash 17 1 0-7 1 0 1 1 -1 -1 -1 -1 -1 0 2 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:2 5 \
          c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 -1 1 6162 1000"
        "without HLEN admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          ERR ACL failure in script: User default has no permissions to run the 'hlen' command*"
        "without HEXISTS admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          ERR ACL failure in script: User default has no permissions to run the 'hexists' command*"
        "without EXISTS admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 read 9000 hash 17 0 0-7 -1 1 1 1 -1 -1 -1 -1 -1 1 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 1 3000 2 \
          c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:2 5 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 -1 1 6162 1000"
        "without ZSCORE admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 read 9000 hash 17 1 0-7 1 1 1 1 -1 -1 -1 -1 -1 1 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 1 3000 1 \
          c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:2 -1 1 6162 1000"
        "without LRANGE admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 read 9000 hash 17 1 0-7 1 1 1 1 -1 -1 -1 -1 -1 1 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 1 3000 1 \
          c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 -1 1 6162 1000"
        "without ZRANGEBYSCORE admin/describe lock token queue seen writers expiries made ended absent / \
          NUMSUB c d e f g -> \
          1 read 9000 hash 17 1 0-7 1 1 1 1 -1 -1 -1 -1 -1 1 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 1 3000 1 \
          c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:2 5 0"
        "without ZCOUNT admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 read 9000 hash 17 1 0-7 -1 1 1 0 -1 -1 -1 -1 -1 1 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 1 3000 2 \
          c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:2 5 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 -1 1 6162 1000"
        "without LLEN admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 read 9000 hash 17 1 0-7 1 1 0 1 -1 -1 -1 -1 -1 1 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 1 3000 2 \
          c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:2 5 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 -1 1 6162 1000"
        "without PUBSUB admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 read 9000 hash 17 1 0-7 1 1 1 1 -1 -1 -1 -1 -1 1 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 1 3000 2 \
          c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:2 5 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 -1 1 6162 1000"
        "without GET admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 read 9000 hash  1  1 1 1 1 -1 -1 -1 -1 -1 1 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 1 3000 2 \
          c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:2 5 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 -1 1 6162 1000"
    }
    a_string_that_may_not_be_read_is_foreign {
        "SET lock 5"
        "without TYPE admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          6 ERR ACL failure in script: User default has no permissions to run the 'type' command"
        "without PTTL admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          6 ERR ACL failure in script: User default has no permissions to run the 'pttl' command"
        "without STRLEN admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 foreign -1 string  0  -1 0 0 0 -1 -1 -1 -1 -1 0 0 0"
        "without GET admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 foreign -1 string  0  -1 0 0 0 -1 -1 -1 -1 -1 0 0 0"
    }
    what_may_not_be_read_is_not_listed {
        "HSET a c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 2"
        "HSET b mode read c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 1"
        "HSET d mode write c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 4 \
          c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1:write 1"
        "SET e 5"
        "ZADD {e}:timeout 1 x"
        "SET f 6"
        "SET lockson:semaphore_life:{f} 1"
        "RPUSH redisson_lock_queue:{g} 00000000-1111-2222-3333-444444444444:2"
        "RPUSH redisson_lock_queue:{a} 00000000-1111-2222-3333-444444444444:2"
        "admin/list / 0 * 100 -> \
          1 0 9 0 g queue -1 00000000-1111-2222-3333-444444444444:2 0 0 1 e permits -1 5 0 0 0 d write -1 \
          c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1:write 1 2 0 f semaphore -1 6 0 0 0 a lock -1 \
          c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 2 1 1 b read -1 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 1 1 0"
        "without SCAN admin/list / 0 * 100 -> \
          6 ERR ACL failure in script: User default has no permissions to run the 'scan' command"
        "without TYPE admin/list / 0 * 100 -> 1 0 9 5 g queue -1 00000000-1111-2222-3333-444444444444:2 0 0 1"
        "without PTTL admin/list / 0 * 100 -> 1 0 9 5 g queue -1 00000000-1111-2222-3333-444444444444:2 0 0 1"
        "without HRANDFIELD admin/list / 0 * 100 -> \
          1 0 9 0 g queue -1 00000000-1111-2222-3333-444444444444:2 0 0 1 e permits -1 5 0 0 0 f semaphore -1 6 0 0 0"
        "without HSTRLEN admin/list / 0 * 100 -> \
          1 0 9 0 g queue -1 00000000-1111-2222-3333-444444444444:2 0 0 1 e permits -1 5 0 0 0 f semaphore -1 6 0 0 0"
        "without HGET admin/list / 0 * 100 -> \
          1 0 9 0 g queue -1 00000000-1111-2222-3333-444444444444:2 0 0 1 e permits -1 5 0 0 0 f semaphore -1 6 0 0 0"
        "without HLEN admin/list / 0 * 100 -> \
          1 0 9 0 g queue -1 00000000-1111-2222-3333-444444444444:2 0 0 1 e permits -1 5 0 0 0 d write -1 \
          c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1:write 1 2 0 f semaphore -1 6 0 0 0 a lock -1 \
          c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 2 1 1 b read -1 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 1 1 0"
        "without HEXISTS admin/list / 0 * 100 -> \
          1 0 9 0 g queue -1 00000000-1111-2222-3333-444444444444:2 0 0 1 e permits -1 5 0 0 0 d write -1 \
          c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1:write 1 2 0 f semaphore -1 6 0 0 0 a lock -1 \
          c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 2 1 1 b read -1 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 1 1 0"
        "without EXISTS admin/list / 0 * 100 -> \
          1 0 9 0 e number -1 5 0 0 0 d write -1 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1:write 1 2 0 f number -1 6 \
          0 0 0 a lock -1 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 2 1 1 b read -1 \
          c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 1 1 0"
        "without LLEN admin/list / 0 * 100 -> \
          1 0 9 0 g queue -1 00000000-1111-2222-3333-444444444444:2 0 0 0 e permits -1 5 0 0 0 d write -1 \
          c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1:write 1 2 0 f semaphore -1 6 0 0 0 a lock -1 \
          c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 2 1 0 b read -1 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 1 1 0"
        "without LINDEX admin/list / 0 * 100 -> \
          1 0 9 0 e permits -1 5 0 0 0 d write -1 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1:write 1 2 0 f semaphore \
          -1 6 0 0 0 a lock -1 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 2 1 1 b read -1 \
          c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 1 1 0"
        "without STRLEN admin/list / 0 * 100 -> \
          1 0 9 0 g queue -1 00000000-1111-2222-3333-444444444444:2 0 0 1 d write -1 \
          c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1:write 1 2 0 a lock -1 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 2 \
          1 1 b read -1 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 1 1 0"
        "without GET admin/list / 0 * 100 -> \
          1 0 9 0 g queue -1 00000000-1111-2222-3333-444444444444:2 0 0 1 d write -1 \
          c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1:write 1 2 0 a lock -1 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 2 \
          1 1 b read -1 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 1 1 0"
    }
    what_only_looks_like_a_lock_is_not_listed {
        "HSET a c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 x"
        "SET b 0123456789abcdef0123456789abcdef PX 800"
        "ZADD {b}:timeout 1 x"
        "SET lockson:semaphore_life:{b} 1"
        "admin/list / 0 * 100 -> 1 0 4 0 b plain 800 0123456789abcdef0123456789abcdef 0 1 0"
    }
    a_readers_leases_are_looked_at_up_to_a_limit {
        "HSET lock mode read c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 199"
        "PEXPIRE lock 9000"
        "SET {lock}:c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1:rwlock_timeout:199 1 PX 3000"
        "HSET lock 00000000-1111-2222-3333-444444444444:2 1"
        "SET {lock}:00000000-1111-2222-3333-444444444444:2:rwlock_timeout:1 1 PX 4000"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 read 9000 hash  0  -1 2 0 0 -1 -1 -1 -1 -1 2 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 199 3000 \
          00000000-1111-2222-3333-444444444444:2 1 4000 0 0"
        "HSET lock c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 200"
        "SET {lock}:c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1:rwlock_timeout:200 1 PX 3000"
        "DEL {lock}:c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1:rwlock_timeout:199"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 read 9000 hash  0  -1 2 0 0 -1 -1 -1 -1 -1 1 c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 200 3000 0 0"
        "HSET lock c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 201"
        "SET {lock}:c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1:rwlock_timeout:201 1 PX 3000"
        "DEL {lock}:c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1:rwlock_timeout:200"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 read 9000 hash  0  -1 2 0 0 -1 -1 -1 -1 -1 0 0 0"
        "HSET lock c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 1"
        "SET {lock}:c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1:rwlock_timeout:0 1 PX 3000"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 read 9000 hash  0  -1 2 0 0 -1 -1 -1 -1 -1 1 00000000-1111-2222-3333-444444444444:2 1 4000 0 0"
    }
    what_a_field_has_is_no_holder {
        "HSET lock mode read c-8f3e2b1a-0c4d-4e5f-9a6b-7c8d9e0f1a2b:1 00000000-1111-2222-3333-444444444444:9 7 1"
        "SET {lock}:00000000-1111-2222-3333-444444444444:9:rwlock_timeout:1 1 PX 3000"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 read -1 hash  0  -1 2 0 0 -1 -1 -1 -1 -1 0 0 0"
    }
    a_hundred_in_the_queue_leave_no_room_for_writers {
        "lua for i = 1, 100 do redis.call('RPUSH', 'queue', 'o') end redis.call('ZADD', 'writers', \
          '99999999999999', 'w', '-9', '=w')"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 none -2   0  -1 0 100 1 -1 -1 -1 -1 -1 0 100 o -1 *"
    }
    a_token_counts_for_its_last_millisecond {
        "SET lock 0123456789abcdef0123456789abcdef PX 1"
        "admin/describe lock token queue seen writers expiries made ended absent / NUMSUB c d e f g -> \
          1 plain 1 0123456789abcdef0123456789abcdef  0  -1 0 0 0 -1 -1 -1 -1 -1 0 0 0"
    }
    a_server_says_what_it_is {
        "admin/server / nobody -> 1 # Server*"
    }
    a_client_says_who_it_is {
        "admin/client key -> 1 "
        "admin/present key / 5000 host -> 1 | key=now host/5000"
        "admin/client key -> 1 now host"
        "wait 100"
        "admin/client key -> 1 now-100 host"
        "admin/present key / 9000 other -> 1 | key=now other/9000"
        "without SET admin/present key / 9000 other -> ERR ACL failure*"
        "without GET admin/client key -> 6 ERR ACL failure*"
        "wait 9001"
        "admin/client key -> 1 "
        "HSET key a b"
        "admin/client key -> 6 WRONGTYPE*"
    }
}
