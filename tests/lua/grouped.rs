//! The scripts of a group's values.

crate::lua::stories! {
    it_is_taken_and_entered {
        "grouped/acquire g / v o 5000 0 -> 1 | g{v=o v:o:expire_time=now+5000 v:o:lock_count=1}/5000"
        "wait 1000"
        "grouped/acquire g / v o 5000 0 -> 1 | g{v=o v:o:expire_time=now+5000 v:o:lock_count=1}/5000"
        "grouped/acquire g / v o 9000 1 -> 1 | g{v=o v:o:expire_time=now+9000 v:o:lock_count=2}/9000"
        "grouped/acquire g / v o 1000 1 -> 1"
        "grouped/acquire g / v p 9000 0 -> 0 9000"
        "grouped/acquire g / v p 9000 1 -> 3"
        "grouped/acquire g / v o 9000 0 -> 5 2"
        "grouped/acquire g / v o 9000 3 -> 5 2"
    }
    each_value_is_by_itself {
        "hear c"
        "grouped/acquire g / v o 5000 0 -> 1 | g{v=o v:o:expire_time=now+5000 v:o:lock_count=1}/5000"
        "grouped/acquire g / w p 1000 0 -> 1 | g{v=o v:o:expire_time=now+5000 v:o:lock_count=1 \
          w=p w:p:expire_time=now+1000 w:p:lock_count=1}/5000"
        "grouped/release g / v o 5000 1 -> 1 1 | g{w=p w:p:expire_time=now+1000 w:p:lock_count=1}/5000 | c=0"
        "wait 1000"
        "grouped/inspect g / w -> 0"
        "grouped/renew g / w p 5000 -> 1 0"
        "grouped/settle g / w q 0 -> 3"
        "grouped/extend g / w p 5000 -> 3"
        "grouped/force g / w _ -> 0"
        "grouped/acquire g / w p 1000 1 -> 3"
        "grouped/acquire g / w q 1000 0 -> 1 | g{w=q w:q:expire_time=now+1000 w:q:lock_count=1}/4000"
        "wait 1000"
        "grouped/acquire g / w q 500 0 -> 1 | g{w=q w:q:expire_time=now+500 w:q:lock_count=1}/3000"
        "wait 500"
        "grouped/release g / w q 500 1 -> 3 | | c=0"
        "HSET g x o x:o:expire_time now-1 x:o:lock_count 1"
        "grouped/release g / x p 500 1 -> 3 | g{x=o x:o:expire_time=now-1 x:o:lock_count=1} | c=0"
        "grouped/settle g / x o 0 -> 3 |"
    }
    another_type_is_left_alone {
        "SET g x"
        "grouped/acquire g / v o 5000 0 -> 4 WRONGTYPE*"
        "grouped/release g / v o 5000 1 -> 4 WRONGTYPE*"
        "grouped/settle g / v o 0 -> 4 WRONGTYPE*"
        "grouped/extend g / v o 5000 -> 4 WRONGTYPE*"
        "grouped/inspect g / v -> 4 WRONGTYPE*"
        "grouped/force g / v _ -> 4 WRONGTYPE*"
        "grouped/renew g / v o 5000 -> 1 0"
        "grouped/acquire_all g / v o 5000 -> 4 WRONGTYPE*"
        "grouped/release_all g / v o c_ -> 1 -"
    }
    it_is_given_back {
        "hear c"
        "HSET g v o v:o:expire_time now+900 v:o:lock_count 2"
        "PEXPIRE g 900"
        "grouped/release g / v p 5000 2 -> 3"
        "grouped/release g / v o 5000 1 -> 5 2"
        "grouped/release g / v o 5000 2 -> 1 -1 | g{v=o v:o:expire_time=now+5000 v:o:lock_count=1}/5000"
        "grouped/release g / v o 1000 2 -> 1 -1"
        "grouped/release g / v o 1000 3 -> 5 1"
        "grouped/release g / v o 5000 1 -> 1 1 | | c=0"
        "grouped/release g / v o 5000 1 -> 3 | | c=0"
    }
    who_hears_of_it_counts {
        "HSET g v o v:o:expire_time now+900 v:o:lock_count 1"
        "unheard grouped/release g / v o 5000 1 -> 1 -1 |"
    }
    what_the_client_does_not_have_ends {
        "hear c"
        "HSET g v o v:o:expire_time now+900 v:o:lock_count 3"
        "PEXPIRE g 2000"
        "grouped/settle g / v o 3 -> 0"
        "grouped/settle g / v p 0 -> 3"
        "grouped/settle g / v o 2 -> 1 -1 | g{v=o v:o:expire_time=now+900 v:o:lock_count=2}/2000"
        "grouped/settle g / v o 1 -> 1 -1 | g{v=o v:o:expire_time=now+900 v:o:lock_count=1}/2000"
        "grouped/settle g / v o 0 -> 1 1 | | c=0"
        "HSET g v o v:o:expire_time now+900 v:o:lock_count nonsense"
        "grouped/settle g / v o 0 -> 0"
        "grouped/acquire g / v o 900 1 -> 5 nonsense"
        "grouped/release g / v o 900 1 -> 5 nonsense"
    }
    a_lease_is_set_exactly {
        "grouped/extend g / v o 5000 -> 3"
        "HSET g v o v:o:expire_time now+900 v:o:lock_count 2"
        "grouped/extend g / v p 5000 -> 3"
        "grouped/extend g / v o 0 -> 1 900"
        "grouped/extend g / v o 5000 -> 1 5000 | g{v=o v:o:expire_time=now+5000 v:o:lock_count=2}/5000"
        "grouped/extend g / v o 1000 -> 1 1000 | g{v=o v:o:expire_time=now+1000 v:o:lock_count=2}/5000"
        "grouped/extend g / v o 1e30 -> 6 ERR*"
    }
    a_refused_lease_takes_nothing {
        "grouped/acquire g / v o 1e30 0 -> 6 ERR* |"
        "grouped/acquire g / v o 5000 0 -> 1 | g{v=o v:o:expire_time=now+5000 v:o:lock_count=1}/5000"
        "grouped/acquire g / v o 1e30 1 -> 6 ERR*"
        "HSET g w p w:p:expire_time now w:p:lock_count 3"
        "grouped/acquire g / w q 1e30 0 -> 6 ERR* | g{v=o v:o:expire_time=now+5000 v:o:lock_count=1}/5000"
    }
    a_group_may_end_before_its_values {
        "HSET g v o v:o:expire_time now+90000 v:o:lock_count 1"
        "grouped/inspect g / v -> 1 90000 o 1"
        "PEXPIRE g 700"
        "grouped/inspect g / v -> 1 700 o 1"
        "grouped/acquire g / v p 5000 0 -> 0 700"
        "grouped/renew g / v o 5000 -> 1 1 | g{v=o v:o:expire_time=now+90000 v:o:lock_count=1}/5000"
    }
    leases_only_grow {
        "HSET a v o v:o:expire_time now+1000 v:o:lock_count 1"
        "HSET b w p w:p:expire_time now+9000 w:p:lock_count 1 x q x:q:expire_time now x:q:lock_count 1"
        "PEXPIRE b 20000"
        "SET d x"
        "grouped/renew a b b d e / v w x v v o 5000 p 5000 q 5000 o 5000 o 5000 -> 1 1 1 0 0 0 | \
          a{v=o v:o:expire_time=now+5000 v:o:lock_count=1}/5000 \
          b{w=p w:p:expire_time=now+9000 w:p:lock_count=1 x=q x:q:expire_time=now x:q:lock_count=1}/20000 d=x"
        "grouped/renew a / v p 9000 -> 1 0"
    }
    in_its_last_millisecond_it_is_held_yet {
        "wait 0"
        "HSET g v o v:o:expire_time now+1 v:o:lock_count 1 w o w:o:expire_time now+1 w:o:lock_count 1"
        "grouped/inspect g / v -> 1 1 o 1"
        "grouped/acquire_all g / v p 5000 -> 0"
        "grouped/release_all g / w o c_ -> 1 0 | g{v=o v:o:expire_time=now+1 v:o:lock_count=1}"
        "grouped/renew g / v o 5000 -> 1 1 | g{v=o v:o:expire_time=now+5000 v:o:lock_count=1}/5000"
        "grouped/extend g / v o 1 -> 1 1 | g{v=o v:o:expire_time=now+1 v:o:lock_count=1}/5000"
    }
    a_group_takes_its_values_along {
        "HSET g v o v:o:expire_time now+5000 v:o:lock_count 1"
        "PEXPIRE g 1"
        "wait 0"
        "grouped/inspect g / v -> 1 1 o 1"
        "wait 1"
        "grouped/inspect g / v -> 0"
    }
    it_is_ended_by_force {
        "hear c"
        "grouped/force g / v _ -> 0"
        "HSET g v o v:o:expire_time now+900 v:o:lock_count 2 w p w:p:expire_time now+900 w:p:lock_count 1"
        "grouped/force g / v p -> 0"
        "grouped/force g / v o -> 1 1 o | g{w=p w:p:expire_time=now+900 w:p:lock_count=1} | c=0"
        "grouped/force g / w _ -> 1 1 p | | c=0"
    }
    many_are_taken_or_none {
        "HSET g w q w:q:expire_time now w:q:lock_count 3"
        "grouped/acquire_all g g h / v o 5000 w p 6000 v o 1000 -> 1 | \
          g{v=o v:o:expire_time=now+5000 v:o:lock_count=1 w=p w:p:expire_time=now+6000 w:p:lock_count=1}/6000 \
          h{v=o v:o:expire_time=now+1000 v:o:lock_count=1}/1000"
        "grouped/acquire_all g h / x o 5000 v o 5000 -> 0"
        "DEL h"
        "grouped/acquire_all g h / w p 5000 v o 5000 -> 0"
        "grouped/acquire_all h h h / v o 5000 x o 5000 w o 1e30 -> 6 ERR*"
        "HSET h y p y:p:expire_time now y:p:lock_count 1"
        "grouped/acquire_all h h h h / v o 5000 x o 5000 w o 1e30 y o 5000 -> 6 ERR* | \
          g{v=o v:o:expire_time=now+5000 v:o:lock_count=1 w=p w:p:expire_time=now+6000 w:p:lock_count=1}/6000 \
          h{y=p}/5000"
    }
    many_are_given_back_each_for_itself {
        "hear a_ b_ c_ d_"
        "HSET a v o v:o:expire_time now+900 v:o:lock_count 1 w o w:o:expire_time now+900 w:o:lock_count 2"
        "HSET b v p v:p:expire_time now v:p:lock_count 1"
        "SET d x"
        "grouped/release_all a a b d a / v o a_ w o b_ v p c_ v o d_ v o a_ -> 1 1 - - - - | \
          a{w=o w:o:expire_time=now+900 w:o:lock_count=2} b{v=p v:p:expire_time=now v:p:lock_count=1} d=x | a_=0"
    }
    ten_messages_tell_of_many {
        "hear c_"
        "HSET g a o a:o:expire_time now+900 a:o:lock_count 1 b o b:o:expire_time now+900 b:o:lock_count 1 \
          c o c:o:expire_time now+900 c:o:lock_count 1 d o d:o:expire_time now+900 d:o:lock_count 1 \
          e o e:o:expire_time now+900 e:o:lock_count 1 f o f:o:expire_time now+900 f:o:lock_count 1 \
          g o g:o:expire_time now+900 g:o:lock_count 1 h o h:o:expire_time now+900 h:o:lock_count 1 \
          i o i:o:expire_time now+900 i:o:lock_count 1 j o j:o:expire_time now+900 j:o:lock_count 1 \
          k o k:o:expire_time now+900 k:o:lock_count 1 l o l:o:expire_time now+900 l:o:lock_count 1"
        "grouped/release_all g g g g g g g g g g g g / \
          a o c_ b o c_ c o c_ d o c_ e o c_ f o c_ \
          g o c_ h o c_ i o c_ j o c_ k o c_ l o c_ -> \
          1 1 1 1 1 1 1 1 1 1 1 1 1 | | c_=0 c_=0 c_=0 c_=0 c_=0 c_=0 c_=0 c_=0 c_=0 c_=0"
    }
    what_is_no_time_is_over {
        "HSET g v o v:o:expire_time x v:o:lock_count 1 w p w:p:expire_time nan w:p:lock_count 1"
        "grouped/inspect g / v -> 0"
        "grouped/inspect g / w -> 0"
        "grouped/renew g g / v w o 900 p 900 -> 1 0 0"
        "grouped/release_all g g / v o c_ w p c_ -> 1 - -"
        "grouped/force g / v _ -> 0"
        "grouped/acquire_all g / v q 900 -> 1 | \
          g{v=q v:q:expire_time=now+900 v:q:lock_count=1 w=p w:p:expire_time=nan w:p:lock_count=1}/900"
    }
}
