//! Many calls in one script. Of each: its body, its channel and its words, with `^` between.

crate::lua::stories! {
    each_call_of_a_group_is_as_if_alone {
        "hear c1 c2"
        "HSET b o 1"
        "PEXPIRE b 9000"
        "SET d t"
        "group a b c d / 1^^p^5000^0 2^c1^o^5000^1 3^^u^700^ 4^c2^t^^ -> \
          1; 1; 1 1; 1; 1 1 | a{p=1}/5000 c=u/700 | c1=0 c2=0"
        "group a b c d / 1^^p^5000^0 2^c1^o^5000^1 3^^u^700^ 4^c2^t^^ -> \
          1; 1; 3; 1; 3 | a{p=1}/5000 c=u/700 | c1=0 c2=0"
        "group d c b a / 3^^u^900^ 4^c2^u^^ 1^^p^5000^0 2^c1^p^5000^1 -> \
          1; 1; 1 1; 1; 1 1 | b{p=1}/5000 d=u/900 | c2=0 c1=0"
    }
    one_alone_is_a_group_too {
        "group a / 1^^p^5000^0 -> 1; 1 | a{p=1}/5000"
        "group a / 2^^p^5000^1 -> 1; 1 0 | "
        "group a / 3^^t^800^ -> 1; 1 | a=t/800"
    }
    what_one_call_finds_is_its_own_answer {
        "HSET a x 1"
        "PEXPIRE a 3000"
        "SET c y"
        "HSET d o 1"
        "group a b c d / 1^^p^5000^0 1^^p^6000^0 3^^u^700^ 1^^o^5000^1 -> \
          1; 0 3000; 1; 0 -1; 1 | a{x=1}/3000 b{p=1}/6000 c=y d{o=2}/5000"
        "group c a / 1^^p^5000^0 3^^u^700^ -> 1; 4 WRONGTYPE*"
        "group a d / 2^c1^x^3000^2 2^c1^o^3000^2 -> 1; 1 -1; 1 -1 | a{x=1}/3000 b{p=1}/6000 c=y \
          d{o=1}/5000"
    }
    an_error_of_one_call_stops_no_other {
        "group b a / 1^^p^5000^0 3^^u^x^ -> 1; 1; 7 ERR value is not an integer* | b{p=1}/5000"
        "HSET a o 1"
        "group c a / 3^^u^700^ 1^^o^x^1 -> 1; 1; 7 user_script:* | a{o=2} b{p=1}/5000 c=u/700"
        "group a d / 1^^o^x^2 3^^u^800^ -> 1; 7 user_script:* | a{o=3} b{p=1}/5000 c=u/700 d=u/800"
    }
    what_may_not_be_done_is_said_of_each {
        "HSET d o 1"
        "PEXPIRE d 9000"
        "without SET group a b d / 1^^p^5000^0 3^^u^700^ 1^^o^5000^1 -> 1; 1; 7 ERR ACL failure in script* | \
          a{p=1}/5000 d{o=2}/9000"
        "without PEXPIRE group b d / 3^^u^700^ 1^^q^5000^0 -> 1; 1; 0 9000 | a{p=1}/5000 b=u/700 d{o=2}/9000"
    }
    a_count_of_several_lines_is_one_answer {
        "lua redis.call('HSET', 'a', 'o', '7\\n8')"
        "group a b / 1^^o^5000^0 3^^u^700^ -> 1; 5 7 8; 1 | a{o=7\n8} b=u/700"
    }
    a_late_group_does_nothing {
        "by -1 group a / 1^^p^5000^0 -> 2"
    }
}
