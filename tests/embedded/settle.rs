//! Making a count what it should be changes no TTL.

use lockson::Reply;
use support::prelude::*;

use super::shipped;

/// Not where there is none, nor in its last millisecond, after which a key that is written anew has none.
#[tokio::test(start_paused = true)]
async fn a_settle_leaves_the_ttl_alone() {
    // A group's are stories.
    let others = ["plain/settle", "grouped/settle"];
    let settles =
        shipped().into_iter().filter(|(name, _)| name.ends_with("/settle") && !others.contains(&name.as_str()));
    let mut done = 0;
    for ((name, text), ttl) in settles.flat_map(|settle| [None, Some(0), Some(5_000)].map(|ttl| (settle.clone(), ttl)))
    {
        let server = EmbeddedServer::new();
        let (owner, mode) = if name.contains("write/") { ("o:write", "write") } else { ("o", "read") };
        server.command(&["HSET", "lock", owner, "2"]).unwrap();
        if name.contains("read/") || name.contains("write/") {
            server.command(&["HSET", "lock", "mode", mode]).unwrap();
        }
        if let Some(left) = ttl {
            server.command(&["PEXPIRE", "lock", &(left + 10).to_string()]).unwrap();
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let left = Ok(Reply::Int(ttl.unwrap_or(-1)));
        assert_eq!(server.command(&["PTTL", "lock"]), left, "{name}");
        let args = ["nonce", "9000000000000", owner, "1", "1", "PUBLISH", "c"];
        server.eval(&text, &["lock", "b", "c", "d", "e", "f"], &args).unwrap();
        assert_eq!(server.command(&["HGET", "lock", owner]), Ok(Reply::Text("1".to_owned())), "{name}");
        assert_eq!(server.command(&["PTTL", "lock"]), left, "{name}");
        done += 1;
    }
    assert_eq!(done, 12);
}
