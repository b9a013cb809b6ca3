//! Many calls in one script. A number stands before the words of each: (its nonce * 8 + how many words) * 8 + its body.

crate::lua::stories! {
    each_call_of_a_group_is_as_if_alone {
        "hear c1 c2"
        "HSET b o 1"
        "PEXPIRE b 9000"
        "SET d t"
        "group a b c d / 473 p 5000 0 57634 o 5000 1 c1 723 u 700 788 t c2 -> \
          1 7 1 nil 900 1 1 11 1 nil 12 1 1 | a{p=1}/5000 c=u/700 | c1=0 c2=0"
        "group a b c d / 473 p 5000 0 57634 o 5000 1 c1 723 u 700 788 t c2 -> \
          1 7 1 nil 900 3 nil 11 1 nil 12 3 nil | a{p=1}/5000 c=u/700 | c1=0 c2=0"
        "group d c b a / 723 u 900 788 u c2 473 p 5000 0 57634 p 5000 1 c1 -> \
          1 11 1 nil 12 1 1 7 1 nil 900 1 1 | b{p=1}/5000 d=u/900 | c2=0 c1=0"
    }
    one_alone_is_a_group_too {
        "group a / 473 p 5000 0 -> 1 7 1 nil | a{p=1}/5000"
        "group a / 57634 p 5000 1 _ -> 1 900 1 0 | "
        "group a / 4194329 t 800 0 -> 1 65536 1 nil | a{t=1}/800"
    }
    what_one_call_finds_is_its_own_answer {
        "HSET a x 1"
        "PEXPIRE a 3000"
        "SET c y"
        "HSET d o 1"
        "group a b c d / 473 p 5000 0 473 p 6000 0 723 u 700 473 o 5000 1 -> \
          1 7 0 3000 7 1 nil 11 0 -1 7 1 nil | a{x=1}/3000 b{p=1}/6000 c=y d{o=2}/5000"
        "group c a / 473 p 5000 0 723 u 700 -> 1 7 4 WRONGTYPE*"
        "group a d / 57634 x 3000 2 c1 57634 o 3000 2 c1 -> 1 900 1 -1 900 1 -1 | a{x=1}/3000 b{p=1}/6000 c=y \
          d{o=1}/5000"
    }
    an_error_of_one_call_stops_no_other {
        "group b a / 473 p 5000 0 723 u x -> 1 7 1 nil 11 7 ERR value is not an integer* | b{p=1}/5000"
        "HSET a o 1"
        "group c a / 723 u 700 473 o x 1 -> 1 11 1 nil 7 7 user_script:* | a{o=2} b{p=1}/5000 c=u/700"
        "group a d / 473 o x 2 723 u 800 -> 1 7 7 user_script:* | a{o=3} b{p=1}/5000 c=u/700 d=u/800"
    }
    what_may_not_be_done_is_said_of_each {
        "HSET d o 1"
        "PEXPIRE d 9000"
        "without SET group a b d / 473 p 5000 0 723 u 700 473 o 5000 1 -> 1 7 1 nil 11 7 ERR ACL failure in script* | \
          a{p=1}/5000 d{o=2}/9000"
        "without PEXPIRE group b d / 723 u 700 473 q 5000 0 -> 1 11 1 nil 7 0 9000 | a{p=1}/5000 b=u/700 d{o=2}/9000"
    }
    a_late_group_does_nothing {
        "by -1 group a / 473 p 5000 0 -> 2"
    }
}
