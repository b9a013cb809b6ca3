//! What stands before scripts, and scripts of no kind: not_after, tokens, a caller's script, votes, ids of servers.

crate::lua::stories! {
    what_comes_too_late_does_nothing {
        "by -1 reentrant/acquire lock / o 5000 0 -> 2"
        "by 0 reentrant/acquire lock / o 5000 0 -> 1 | lock{o=1}/5000"
        "wait 877"
        "by 0 reentrant/inspect lock -> 1 4123 o 1"
        "by -1 reentrant/inspect lock -> 2"
        "wait 1"
        "by 1 reentrant/inspect lock -> 1 4122 o 1"
    }
    who_knows_no_time_of_the_server_yet_is_late {
        "at 1 reentrant/acquire lock / o 5000 0 -> 2"
        "at 62000 reentrant/acquire lock / o 5000 0 -> 2"
        "at 999999999999 reentrant/acquire lock / o 5000 0 -> 2"
        "at -1 reentrant/acquire lock / o 5000 0 -> 2"
        "at 17000000000000 reentrant/acquire lock / o 5000 0 -> 1 | lock{o=1}/5000"
    }
    many_are_taken_or_none {
        "multi/acquire a b / o 5000 p 6000 -> 1 | a{o=1}/5000 b{p=1}/6000"
        "multi/acquire a b / o 5000 p 6000 -> 0"
        "DEL a"
        "multi/acquire a b / o 5000 p 6000 -> 0"
        "multi/acquire a c / o 5000 o 1e30 -> 6 ERR value is not an integer*"
        "SET d x"
        "multi/acquire b d / o 5000 o 5000 -> 4 WRONGTYPE*"
    }
    many_are_given_back_each_for_itself {
        "hear a_ b_ c_ d_"
        "HSET a o 1"
        "HSET b p 2"
        "HSET c o 1"
        "SET d x"
        "multi/release a b c d / o a_ p b_ o c_ o d_ -> 1 1 - 1 - | b{p=2} d=x | a_=0 c_=0"
        "multi/release a b c d / o a_ p b_ o c_ o d_ -> 1 - - - -"
    }
    a_token_is_the_time_at_least {
        "fenced reentrant/acquire lock token / o 5000 0 0 1 -> 1 us+1 | lock{o=1}/5000 token=us+1"
        "DEL lock"
        "SET token 9"
        "fenced reentrant/acquire lock token / o 5000 0 0 1 -> 1 us+1 | lock{o=1}/5000 token=us+1"
        "DEL lock"
        "fenced reentrant/acquire lock token / o 5000 0 0 1 -> 1 us+2 | lock{o=1}/5000 token=us+2"
        "DEL lock"
        "fenced reentrant/acquire lock token / o 5000 0 99999999999999999 1 -> 1 100000000000000000 | \
          lock{o=1}/5000 token=100000000000000000"
        "DEL lock"
        "fenced reentrant/acquire lock token / o 5000 0 3 1 -> 1 100000000000000001 | lock{o=1}/5000 \
          token=100000000000000001"
        "DEL lock"
        "SET token 100000000000000999"
        "fenced reentrant/acquire lock token / o 5000 0 100000000000000500 1 -> 1 100000000000001000 | \
          lock{o=1}/5000 token=100000000000001000"
    }
    a_hold_that_goes_on_keeps_its_token {
        "SET token 100000000000000000"
        "HSET lock o 1"
        "fenced reentrant/acquire lock token / o 5000 1 0 _ -> 1 | lock{o=2}/5000 token=100000000000000000"
        "fenced reentrant/acquire lock token / o 5000 1 0 1 -> 1 100000000000000001 | lock{o=2}/5000 \
          token=100000000000000001"
        "fenced reentrant/acquire lock token / o 5000 1 0 1 -> 1 100000000000000002 | lock{o=2}/5000 \
          token=100000000000000002"
        "DEL token"
        "fenced reentrant/acquire lock token / o 5000 1 0 1 -> 1 us+1 | lock{o=2}/5000 token=us+1"
    }
    who_finds_it_busy_raises_no_token {
        "HSET lock x 1"
        "SET token 5"
        "fenced reentrant/acquire lock token / o 5000 0 0 1 -> 0 -1"
        "fenced reentrant/acquire lock token / o 5000 0 0 _ -> 0 -1"
    }
    what_is_free_or_will_be_is_seen {
        "HSET a o 1"
        "PEXPIRE a 5000"
        "SET b t PX 900"
        "HSET c o 1"
        "look a b c d / 1000 -> 1 2 4 | a{o=1}/5000 b=t/900 c{o=1}"
        "look c / 1000 -> 1"
        "look a / 5001 -> 1 1"
        "look d a / 1000 -> 1 1"
        "wait 100"
        "look a / 4901 -> 1 1"
        "look a / 4900 -> 1"
    }
    what_is_no_token_is_refused {
        "SET token 05"
        "fenced reentrant/acquire lock token / o 5000 0 0 1 -> 6 ERR the value at the key of the token is not a token"
        "SET token x"
        "fenced reentrant/acquire lock token / o 5000 0 0 1 -> 6 ERR the value at the key of the token is not a token"
        "SET token 9223372036854775806"
        "fenced reentrant/acquire lock token / o 5000 0 0 1 -> 1 9223372036854775807 | lock{o=1}/5000 \
          token=9223372036854775807"
        "DEL lock"
        "fenced reentrant/acquire lock token / o 5000 0 0 1 -> 6 ERR there is no token above the last one"
        "SET token 0"
        "fenced reentrant/acquire lock token / o 5000 0 0 1 -> 1 us+1 | lock{o=1}/5000 token=us+1"
        "DEL token"
        "HSET token a 1"
        "DEL lock"
        "fenced reentrant/acquire lock token / o 5000 0 0 1 -> 4 WRONGTYPE*"
        "SET lock x"
        "fenced reentrant/acquire lock token / o 5000 0 0 1 -> 4 WRONGTYPE*"
    }
    a_token_is_one_more {
        "SET token 100000000000000025"
        "fenced reentrant/acquire lock token / o 5000 0 0 1 -> 1 100000000000000026 | lock{o=1}/5000 \
          token=100000000000000026"
        "DEL lock"
        "SET token 199999999999999999"
        "fenced reentrant/acquire lock token / o 5000 0 0 1 -> 1 200000000000000000 | lock{o=1}/5000 \
          token=200000000000000000"
        "DEL lock"
        "SET token 999999999999999999"
        "fenced reentrant/acquire lock token / o 5000 0 0 1 -> 1 1000000000000000000 | lock{o=1}/5000 \
          token=1000000000000000000"
    }
    an_heir_gets_a_token {
        "SET token 100000000000000009"
        "HSET lock o 1"
        "fenced reentrant/hand_over lock token / o p 5000 0 1 -> 1 100000000000000010 | lock{p=1}/5000 \
          token=100000000000000010"
        "fenced reentrant/hand_over lock token / o p 5000 0 1 -> 1 100000000000000011 | lock{p=1}/5000 \
          token=100000000000000011"
    }
    a_callers_script_runs_for_who_holds {
        "HSET lock o 1"
        "fenced/run lock a / x 7 return{1} -> 3"
        "fenced/run lock a b / o 7 return{KEYS[2],ARGV[1],token,true,false,{1,{2}},3.7} m n -> 1 list 7 text b text m \
          text 7 int 1 nil list 2 int 1 list 1 int 2 int 3"
        "fenced/run lock a / o 7 return{KEYS[1],{1,{'x'}},2} -> 1 list 3 text a list 2 int 1 list 1 text x int 2"
        "fenced/run lock a / o 7 return(redis.call('SET',KEYS[1],token)) -> 1 text OK | a=7 lock{o=1}"
        "fenced/run lock a / o 7 return(#KEYS*10+#ARGV) x -> 1 int 11"
        "fenced/run lock a / o 7 return -> 1 nil"
        "fenced/run lock a / o 7 return(redis.pcall('HGET',KEYS[1],'x')) -> 1 error WRONGTYPE*"
        "fenced/run lock a / o 7 return(redis.call('HGET',KEYS[1],'x')) -> 1 error WRONGTYPE*"
        "fenced/run lock a / o 7 error('bad') -> 1 error script:1: bad"
        "fenced/run lock a / o 7 return(( -> 6 script:1:*"
        "SET text x"
        "fenced/run text a / o 7 return(1) -> 4 WRONGTYPE*"
    }
    a_callers_script_sees_its_own_and_no_more {
        "HSET lock o 1"
        "fenced/run lock a / o 7 return{type(KEYS[0]),type(ARGV[0]),#KEYS,#ARGV} x y -> 1 list 4 text nil text nil \
          int 1 int 2"
        "fenced/run lock / o 7 return{} -> 1 list 0"
        "fenced/run lock / o 7 error({err='E~x'}) -> 1 error E x"
    }
    a_server_has_an_id {
        "multi/server_id id / fresh 5000 -> 1 fresh | id=fresh/5000"
        "wait 1000"
        "multi/server_id id / other 6000 -> 1 fresh | id=fresh/6000"
        "HSET hash a 1"
        "multi/server_id hash / other 6000 -> 4 WRONGTYPE*"
        "multi/server_id new / other 1e30 -> 6 ERR value is not an integer*"
    }
    a_vote_says_since_when_data_is_whole {
        "red reentrant/acquire lock / o 5000 0 boot -> 1 <run> now | boot=now <run> lock{o=1}/5000"
        "red reentrant/acquire lock / x 5000 1 boot -> 3"
        "SET boot rubbish"
        "red reentrant/acquire lock / o 5000 0 boot -> 1 <run> now | boot=now <run> lock{o=1}/5000"
        "SET boot now-500~other"
        "red reentrant/acquire lock / o 5000 0 boot -> 1 <run> now | boot=now <run> lock{o=1}/5000"
        "HSET lock o 4"
        "red reentrant/acquire lock / o 5000 0 boot -> 5 4"
        "DEL lock boot"
        "HSET boot a 1"
        "red reentrant/acquire lock / o 5000 0 boot -> 6 WRONGTYPE*"
        "quarantine boot -> 6 WRONGTYPE*"
        "DEL boot"
        "SET lock x"
        "red reentrant/acquire lock / o 5000 0 boot -> 4 WRONGTYPE* | boot=now <run> lock=x"
    }
    a_marker_is_as_old_as_it_says {
        "wait 5000"
        "HSET lock x 1"
        "SET boot now-1~<run>"
        "red reentrant/acquire lock / o 5000 0 boot -> 0 -1 <run> now-1"
        "SET boot now+1~<run>"
        "red reentrant/acquire lock / o 5000 0 boot -> 0 -1 <run> now | boot=now <run> lock{x=1}"
        "wait 100"
        "red reentrant/acquire lock / o 5000 0 boot -> 0 -1 <run> now-100"
        "DEL boot"
        "red reentrant/acquire lock / o 5000 0 boot -> 0 -1 <run> now | boot=now <run> lock{x=1}"
    }
    a_server_without_a_marker_is_as_old_as_its_process {
        "wait 5000"
        "quarantine boot -> 1 <run> now-4000 | boot=now-4000 <run>"
        "wait 100"
        "quarantine boot -> 1 <run> now-4100"
        "SET boot now-9000~other"
        "quarantine boot -> 1 <run> now | boot=now <run>"
    }
    a_young_server_is_new {
        "wait 0"
        "quarantine boot -> 1 <run> now | boot=now <run>"
    }
    fewer_rights_are_missing_on_a_server_without_users {
        "preflight lock -> 1  # Server*"
        "preflight lock / WAIT -> 1  # Server*"
    }
}
