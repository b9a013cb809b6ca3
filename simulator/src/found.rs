//! Plans of seeds that failed once, made small. As data they stay what they are when seeds give something else.

use crate::plan::{fault, turn, End, Fate, Fault, Kind, Plan, Turn, TURN};

/// Each with what was wrong.
pub fn all() -> Vec<(&'static str, Plan)> {
    vec![
        (
            "an acquire that was refused half-way had the lock without a token, and gave out the one before again",
            of_the_hold_before(),
        ),
        ("the same, behind a right to take its place in the queue away", behind_a_place()),
        (
            "a hand-over without an answer, refused when it was sent again, left the hold for its lease",
            refused_hand_over(),
        ),
        ("the watch over a queue's head was written, and refused a time to live", watch_without_end()),
        ("the same, behind older data", watch_behind_older_data()),
        (
            "the debt of a fair queue was written, and what followed was refused before it had a time to live",
            debt_without_end(),
        ),
        (
            "whoever came to the head of a line waited for a look of its own, however long nobody of it had looked",
            heads_that_leave(),
        ),
        (
            "a re-entry answered behind the end of its hold was given back until that lease was over, not its own",
            longer_than_its_hold(),
        ),
        ("who left a fair queue where ZREM is refused kept its score, and so seemed to have its place", scores_alone()),
        ("a read hold that had ended by its lease was left in the hash when it was entered again", ended_reader()),
        (
            "who was refused to clear what a give-back had left went on to ask, and took that for somebody's writing",
            refused_settle(),
        ),
        ("a head that was refused its lease after a pause was dropped as dead, though it had asked", silent_head()),
        ("a newcomer's first look took the message of who was in the middle of a look", taken_message()),
        ("what was refused to undo a call was not tried again behind a try without an answer", undone_in_vain()),
        ("copies that would enter a hold again counted in the owner's next one, as that was taken", late_entries()),
        ("a renewal sent at the moment at which a lease was shortened counted for its whole length", shortened_now()),
    ]
}

fn of_the_hold_before() -> Plan {
    let own = Turn { kind: Kind::FencedFair, ..TURN };
    let steps = vec![
        turn(615, Turn { wait: 3_443, work: 3_375, entries: 3, ..own }),
        turn(641, Turn { task: 1, wait: 0, work: 9, end: End::Drop, ..own }),
        turn(933, Turn { task: 2, wait: 3_778, work: 31, end: End::Extend(206), ..own }),
        turn(816, Turn { task: 3, wait: 2_383, work: 22, ..own }),
        turn(
            1_022,
            Turn { task: 5, wait: 3_912, patience: Some(531), lease: Some(1_905), work: 15, end: End::Drop, ..own },
        ),
        fault(1_130, Fault::Weather { lasts: 321, lost: 0, unanswered: 0, again: 0, silent: 201, delay: 943 }),
        fault(400, Fault::Deny { server: 0, command: "hset", lasts: 1_297 }),
        fault(3_082, Fault::Pause { client: 2, lasts: 0 }),
        fault(614, Fault::Weather { lasts: 1_233, lost: 0, unanswered: 0, again: 49, silent: 0, delay: 397 }),
    ];
    Plan { seed: 358_858, lease: 3_000, confirmed: None, steps }
}

fn behind_a_place() -> Plan {
    let own = Turn { kind: Kind::FencedFair, ..TURN };
    let steps = vec![
        turn(445, Turn { task: 1, wait: 1_544, patience: Some(166), work: 10, entries: 3, end: End::Drop, ..own }),
        turn(445, Turn { task: 1, wait: 3_743, lease: Some(646), work: 3_675, end: End::Drop, ..own }),
        turn(502, Turn { task: 1, wait: 647, work: 26, entries: 2, end: End::Within(336), ..own }),
        turn(192, Turn { task: 2, wait: 1_109, work: 2_835, end: End::Drop, ..own }),
        turn(325, Turn { task: 2, wait: 2_322, work: 29, ..own }),
        turn(325, Turn { task: 2, wait: 3_938, work: 397, end: End::Drop, ..own }),
        turn(664, Turn { wait: 1_446, work: 18, end: End::Extend(3_715), ..own }),
        turn(
            664,
            Turn { wait: 1_609, patience: Some(65), lease: Some(655), work: 10, entries: 1, end: End::Drop, ..own },
        ),
        turn(664, Turn { task: 3, wait: 3_361, work: 8, ..own }),
        turn(132, Turn { task: 4, wait: 3_443, lease: Some(3_194), work: 5_613, entries: 3, end: End::Drop, ..own }),
        turn(
            312,
            Turn {
                task: 1,
                wait: 512,
                patience: Some(263),
                lease: Some(3_066),
                work: 34,
                entries: 3,
                end: End::Extend(1_314),
                ..own
            },
        ),
        turn(312, Turn { task: 4, wait: 93, work: 17, entries: 3, end: End::Drop, ..own }),
        turn(649, Turn { task: 4, wait: 123, patience: Some(407), lease: Some(799), work: 7, end: End::Drop, ..own }),
        fault(3_476, Fault::Weather { lasts: 957, lost: 50, unanswered: 50, again: 50, silent: 0, delay: 9 }),
        fault(2_700, Fault::Deny { server: 0, command: "zrem", lasts: 1_457 }),
    ];
    Plan { seed: 601_786, lease: 300_000, confirmed: None, steps }
}

fn refused_hand_over() -> Plan {
    let own = Turn { kind: Kind::Fenced, ..TURN };
    let steps = vec![
        turn(0, Turn { work: 15, ..own }),
        // Of the same client, and soon enough: it is handed over to.
        turn(5, Turn { task: 3, ..own }),
        fault(14, Fault::Calls { client: 0, count: 1, fate: Fate::Lost }),
        fault(100, Fault::Deny { server: 0, command: "hdel", lasts: 1_000 }),
    ];
    Plan { seed: 1, lease: 300_000, confirmed: None, steps }
}

fn watch_without_end() -> Plan {
    let own = Turn { kind: Kind::FairMutex, ..TURN };
    let steps = vec![
        turn(0, Turn { wait: 2_510, lease: Some(2_314), work: 508, entries: 2, end: End::Extend(1_220), ..own }),
        turn(456, Turn { task: 1, wait: 3_923, patience: Some(314), work: 14, ..own }),
        turn(233, Turn { task: 5, wait: 3_502, work: 3_294, end: End::Drop, ..own }),
        turn(316, Turn { task: 5, wait: 1_685, lease: Some(2_479), work: 39, end: End::Drop, ..own }),
        fault(1_300, Fault::Deny { server: 0, command: "pexpire", lasts: 1_400 }),
        fault(1_600, Fault::Rollback { server: 0, age: 957 }),
    ];
    Plan { seed: 604_784, lease: 3_000, confirmed: None, steps }
}

fn watch_behind_older_data() -> Plan {
    let own = Turn { kind: Kind::FairMutex, ..TURN };
    let steps = vec![
        turn(
            105,
            Turn {
                name: 1,
                kind: Kind::Multi,
                wait: 2_840,
                patience: Some(462),
                lease: Some(2_727),
                work: 1_190,
                end: End::Extend(3_216),
                ..TURN
            },
        ),
        turn(518, Turn { task: 1, wait: 19, work: 17, ..own }),
        turn(1_467, Turn { wait: 3_696, lease: Some(2_784), work: 21, entries: 2, ..own }),
        turn(497, Turn { task: 5, wait: 464, work: 34, end: End::Extend(2_069), ..own }),
        turn(497, Turn { task: 5, name: 1, kind: Kind::Multi, wait: 1_528, work: 18, end: End::Drop, ..TURN }),
        turn(497, Turn { task: 5, wait: 1_757, lease: Some(2_351), work: 33, end: End::Drop, ..own }),
        fault(1_279, Fault::Rollback { server: 0, age: 755 }),
        fault(700, Fault::Deny { server: 0, command: "pexpire", lasts: 1_932 }),
    ];
    Plan { seed: 607_501, lease: 3_000, confirmed: None, steps }
}

fn debt_without_end() -> Plan {
    let own = Turn { kind: Kind::FairMutex, ..TURN };
    let steps = vec![
        turn(101, Turn { name: 1, wait: 1_029, work: 400, ..own }),
        turn(136, Turn { wait: 2_233, work: 15, ..own }),
        turn(229, Turn { task: 1, wait: 3_654, lease: Some(1_437), work: 30, end: End::Drop, ..own }),
        turn(205, Turn { task: 2, wait: 1_028, lease: Some(2_355), work: 30, end: End::Extend(3_751), ..own }),
        turn(528, Turn { task: 3, wait: 2_846, end: End::Within(351), ..own }),
        fault(2_300, Fault::Crash { client: 0 }),
        fault(292, Fault::Deny { server: 0, command: "hdel", lasts: 1_976 }),
    ];
    Plan { seed: 710_627, lease: 3_000, confirmed: None, steps }
}

fn heads_that_leave() -> Plan {
    let own = Turn { kind: Kind::Fenced, ..TURN };
    let steps = vec![
        turn(398, Turn { wait: 1_756, patience: Some(177), work: 5_211, limited: Some(189), ..own }),
        turn(680, Turn { task: 1, wait: 783, work: 27, ..own }),
        turn(680, Turn { task: 1, wait: 2_947, work: 38, ..own }),
        turn(680, Turn { task: 1, wait: 2_788, work: 39, entries: 3, end: End::Extend(3_965), ..own }),
        turn(573, Turn { task: 2, wait: 2_840, work: 368, end: End::Drop, ..own }),
        turn(132, Turn { task: 2, wait: 131, work: 12, ..own }),
        turn(722, Turn { task: 3, wait: 525, lease: Some(2_088), work: 16, entries: 2, end: End::Drop, ..own }),
        turn(1_160, Turn { task: 2, wait: 3_783, work: 29, end: End::Drop, ..own }),
        turn(496, Turn { task: 3, wait: 2_210, work: 10, ..own }),
        turn(516, Turn { task: 6, wait: 398, work: 6, end: End::Drop, ..own }),
        turn(516, Turn { task: 6, wait: 0, work: 3_800, end: End::Drop, ..own }),
        turn(516, Turn { task: 6, wait: 857, lease: Some(908), work: 22, entries: 1, ..own }),
        fault(586, Fault::Slow { client: Some(2), server: 0, there: 2, back: 1, lasts: 1_212 }),
        fault(579, Fault::Delete { name: 0 }),
    ];
    Plan { seed: 215_693, lease: 30_000, confirmed: None, steps }
}

fn longer_than_its_hold() -> Plan {
    let steps = vec![
        turn(277, Turn { name: 1, kind: Kind::Plain, wait: 2_465, work: 28, entries: 1, end: End::Drop, ..TURN }),
        turn(414, Turn { task: 1, name: 1, kind: Kind::Plain, wait: 2_079, work: 17, ..TURN }),
        turn(219, Turn { task: 2, wait: 494, lease: Some(536), work: 28, end: End::Within(389), ..TURN }),
        turn(219, Turn { task: 2, wait: 1_331, work: 21, end: End::Within(305), ..TURN }),
        turn(170, Turn { task: 3, wait: 850, lease: Some(2_907), work: 27, end: End::Extend(2_438), ..TURN }),
        turn(
            31,
            Turn {
                task: 4,
                name: 1,
                kind: Kind::Plain,
                wait: 2_386,
                patience: Some(275),
                lease: Some(2_944),
                work: 24,
                ..TURN
            },
        ),
        turn(536, Turn { task: 4, wait: 2_075, work: 4, entries: 2, end: End::Extend(2_758), ..TURN }),
        turn(218, Turn { task: 5, wait: 59, lease: Some(2_350), work: 545, end: End::Extend(3_779), ..TURN }),
        fault(39, Fault::Weather { lasts: 2_021, lost: 0, unanswered: 0, again: 0, silent: 0, delay: 521 }),
        fault(1_800, Fault::Stop { server: 0, lasts: 1_713 }),
    ];
    Plan { seed: 873_625, lease: 30_000, confirmed: None, steps }
}

fn scores_alone() -> Plan {
    let own = Turn { kind: Kind::Fair, ..TURN };
    let steps = vec![
        turn(204, Turn { wait: 3_480, lease: Some(1_565), work: 37, end: End::Drop, ..own }),
        turn(204, Turn { wait: 335, work: 11, entries: 1, ..own }),
        turn(204, Turn { wait: 3_017, work: 568, ..own }),
        turn(204, Turn { wait: 3_534, lease: Some(2_877), work: 3_745, entries: 1, ..own }),
        turn(204, Turn { wait: 3_323, lease: Some(275), work: 33, end: End::Drop, ..own }),
        turn(271, Turn { task: 1, wait: 2_632, work: 4_207, end: End::Drop, ..own }),
        turn(840, Turn { task: 1, wait: 2_132, lease: Some(864), work: 6, end: End::Drop, ..own }),
        turn(1_002, Turn { task: 1, wait: 3_648, work: 32, end: End::Drop, ..own }),
        turn(628, Turn { task: 2, wait: 1_852, lease: Some(2_532), work: 2, entries: 3, ..own }),
        turn(268, Turn { task: 4, wait: 3_486, work: 15, end: End::Drop, ..own }),
        turn(287, Turn { task: 4, wait: 3_159, work: 16, end: End::Drop, ..own }),
        turn(763, Turn { task: 4, wait: 2_195, work: 5_235, entries: 3, ..own }),
        turn(155, Turn { task: 3, wait: 2_893, work: 501, end: End::Extend(2_616), ..own }),
        turn(509, Turn { task: 5, wait: 0, lease: Some(1_313), work: 26, ..own }),
        turn(
            509,
            Turn {
                task: 6,
                wait: 3_137,
                patience: Some(387),
                lease: Some(478),
                work: 4_274,
                entries: 3,
                limited: Some(817),
                ..own
            },
        ),
        fault(800, Fault::Deny { server: 0, command: "zrem", lasts: 1_748 }),
        fault(500, Fault::Weather { lasts: 1_779, lost: 0, unanswered: 0, again: 291, silent: 0, delay: 495 }),
    ];
    Plan { seed: 639_431, lease: 300_000, confirmed: None, steps }
}

fn ended_reader() -> Plan {
    let read = Turn { kind: Kind::Read, ..TURN };
    let write = Turn { kind: Kind::Write, ..TURN };
    let steps = vec![
        turn(164, Turn { task: 2, wait: 3_402, work: 33, ..read }),
        turn(713, Turn { task: 2, wait: 186, lease: Some(214), work: 162, end: End::Drop, ..write }),
        turn(
            1_176,
            Turn { task: 2, wait: 2_200, lease: Some(442), work: 423, entries: 1, end: End::Within(235), ..read },
        ),
        turn(1_650, Turn { wait: 2_680, work: 23, entries: 2, ..read }),
        turn(0, Turn { task: 5, wait: 3_564, work: 3_270, ..write }),
        turn(0, Turn { task: 5, wait: 2_480, work: 14, entries: 1, end: End::Drop, ..write }),
        turn(526, Turn { task: 5, wait: 3_954, patience: Some(445), work: 2, ..read }),
        fault(3_907, Fault::Slow { client: None, server: 0, there: 23, back: 0, lasts: 109 }),
    ];
    Plan { seed: 357_166, lease: 30_000, confirmed: None, steps }
}

fn refused_settle() -> Plan {
    let read = Turn { task: 3, kind: Kind::Read, end: End::Drop, ..TURN };
    let steps = vec![
        turn(632, Turn { wait: 2_363, patience: Some(567), work: 5_353, limited: Some(489), ..read }),
        turn(1_507, Turn { wait: 0, work: 12, entries: 3, ..read }),
        fault(2_583, Fault::Deny { server: 0, command: "hget", lasts: 278 }),
        fault(655, Fault::Weather { lasts: 2_266, lost: 50, unanswered: 50, again: 50, silent: 0, delay: 34 }),
    ];
    Plan { seed: 985_277, lease: 3_000, confirmed: None, steps }
}

fn silent_head() -> Plan {
    let own = Turn { name: 1, kind: Kind::Fair, ..TURN };
    let steps = vec![
        turn(0, Turn { wait: 0, work: 0, ..own }),
        turn(0, Turn { wait: 0, work: 0, ..TURN }),
        turn(0, Turn { task: 1, wait: 0, work: 0, ..TURN }),
        turn(574, Turn { task: 1, wait: 3_992, work: 0, ..own }),
        turn(0, Turn { wait: 0, work: 0, ..own }),
        turn(100, Turn { task: 2, wait: 739, work: 0, ..TURN }),
        turn(0, Turn { task: 2, wait: 1_403, work: 0, ..own }),
        turn(0, Turn { task: 2, wait: 1_472, work: 0, ..own }),
        turn(0, Turn { wait: 0, work: 0, ..own }),
        turn(0, Turn { wait: 0, work: 0, ..TURN }),
        turn(0, Turn { wait: 0, work: 459, ..own }),
        turn(0, Turn { task: 1, wait: 1, work: 0, ..own }),
        turn(0, Turn { wait: 442, work: 0, ..own }),
        turn(0, Turn { wait: 173, work: 0, ..own }),
        turn(0, Turn { task: 1, wait: 0, work: 0, ..TURN }),
        turn(0, Turn { wait: 0, work: 0, ..TURN }),
        turn(0, Turn { wait: 2_659, work: 0, ..own }),
        turn(100, Turn { task: 5, wait: 143, work: 0, ..own }),
        turn(0, Turn { task: 5, wait: 225, work: 2_190, ..own }),
        turn(84, Turn { task: 3, wait: 0, work: 275, end: End::Extend(3_827), ..TURN }),
        fault(3_400, Fault::Suspend { span: 3_180 }),
        fault(2_100, Fault::Weather { lasts: 1_819, lost: 50, unanswered: 50, again: 50, silent: 200, delay: 84 }),
        fault(2_200, Fault::Deny { server: 0, command: "pexpire", lasts: 1_924 }),
    ];
    Plan { seed: 496_494, lease: 30_000, confirmed: None, steps }
}

fn taken_message() -> Plan {
    let (first, other) = (Turn { task: 2, work: 0, ..TURN }, Turn { task: 5, wait: 0, work: 0, ..TURN });
    let steps = vec![
        turn(150, Turn { kind: Kind::Await, wait: 1_667, ..first }),
        turn(294, Turn { kind: Kind::Await, wait: 656, ..other }),
        turn(0, Turn { kind: Kind::CountDown, ..other }),
        turn(0, Turn { kind: Kind::Await, ..other }),
        turn(0, Turn { kind: Kind::CountDown, wait: 0, ..first }),
        fault(1_000, Fault::Reopen { name: 0 }),
        fault(0, Fault::Slow { client: None, server: 0, there: 27, back: 41, lasts: 1_787 }),
    ];
    Plan { seed: 91_810_493, lease: 3_000, confirmed: None, steps }
}

fn undone_in_vain() -> Plan {
    let taker = Turn { kind: Kind::PermitSemaphore, wait: 1, work: 0, ..TURN };
    let steps = vec![
        turn(0, Turn { wait: 0, ..taker }),
        turn(0, Turn { task: 1, ..taker }),
        turn(0, Turn { task: 2, ..taker }),
        fault(0, Fault::Messages { client: 0, count: 4, late: Some(1_087) }),
        fault(0, Fault::Weather { lasts: 1_511, lost: 0, unanswered: 0, again: 0, silent: 0, delay: 829 }),
        fault(185, Fault::Deny { server: 0, command: "zrem", lasts: 836 }),
    ];
    Plan { seed: 95_157_868, lease: 300_000, confirmed: None, steps }
}

fn late_entries() -> Plan {
    let (down, write) = (Turn { kind: Kind::Downgrade, work: 0, ..TURN }, Turn { kind: Kind::Write, work: 0, ..TURN });
    let steps = vec![
        turn(300, Turn { wait: 595, ..down }),
        turn(200, Turn { task: 2, wait: 350, work: 281, entries: 3, ..write }),
        turn(0, Turn { task: 2, wait: 1, ..down }),
        turn(0, Turn { task: 2, wait: 702, ..write }),
        turn(179, Turn { task: 1, kind: Kind::Read, wait: 0, work: 260, ..TURN }),
        turn(0, Turn { wait: 192, work: 15, ..write }),
        turn(183, Turn { task: 4, wait: 598, work: 14, ..down }),
        turn(0, Turn { task: 1, wait: 496, work: 36, end: End::Extend(2_302), ..down }),
        fault(700, Fault::Calls { client: 2, count: 4, fate: Fate::Cut(276) }),
        fault(0, Fault::Calls { client: 2, count: 0, fate: Fate::Again(128) }),
        fault(985, Fault::Weather { lasts: 5, lost: 0, unanswered: 50, again: 50, silent: 200, delay: 1 }),
    ];
    Plan { seed: 95_675_027, lease: 300_000, confirmed: None, steps }
}

fn shortened_now() -> Plan {
    let value = Turn { name: 1, kind: Kind::Value, work: 0, ..TURN };
    let fair = Turn { kind: Kind::FairMutex, work: 0, ..TURN };
    let steps = vec![
        turn(0, Turn { wait: 1, ..value }),
        turn(384, Turn { wait: 811, ..fair }),
        turn(0, Turn { wait: 224, work: 1, entries: 2, end: End::Extend(929), ..value }),
        turn(182, Turn { task: 2, wait: 498, ..fair }),
        turn(0, Turn { task: 2, wait: 673, ..value }),
        turn(219, Turn { task: 3, wait: 1_085, work: 434, ..fair }),
        turn(64, Turn { task: 4, wait: 0, work: 558, ..fair }),
        turn(0, Turn { task: 4, wait: 787, ..value }),
        turn(200, Turn { task: 1, wait: 0, work: 112, ..value }),
        turn(0, Turn { task: 2, wait: 441, ..fair }),
        turn(0, Turn { task: 6, wait: 1, entries: 3, ..value }),
        turn(629, Turn { task: 6, wait: 976, ..fair }),
        turn(200, Turn { task: 7, wait: 46, ..fair }),
        turn(0, Turn { task: 7, wait: 482, patience: Some(394), ..fair }),
        turn(0, Turn { task: 7, wait: 120, work: 474, ..value }),
        turn(0, Turn { task: 3, wait: 3_436, ..fair }),
        fault(0, Fault::Pause { client: 2, lasts: 0 }),
        fault(300, Fault::Weather { lasts: 1_892, lost: 0, unanswered: 0, again: 0, silent: 706, delay: 69 }),
        fault(1_646, Fault::Pause { client: 0, lasts: 2_532 }),
    ];
    Plan { seed: 95_424_060, lease: 3_000, confirmed: None, steps }
}
