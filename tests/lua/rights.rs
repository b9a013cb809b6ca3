//! What scripts answer where their user may not call a command, and what they leave then.

crate::lua::stories! {
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
}
