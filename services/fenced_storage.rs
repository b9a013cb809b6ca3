//! A database that refuses late writes. A worker is paused beyond its lease, another takes the lock and writes, and
//! then the first one wakes up and writes too, as it had looked before the pause: "mine". Only the database can stop
//! it, by the token of the hold: `WHERE token <= ?`.
//!
//! ```sh
//! cargo run -p services --bin fenced_storage                                   # on a server inside this process
//! cargo run -p services --bin fenced_storage -- --url redis://127.0.0.1:6379   # on a real one
//! ```

use std::error::Error;
use std::time::Duration;

use lockson::{EmbeddedServer, Locks, RunError};
use rusqlite::{params, Connection};

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

/// The state of orders. Each row knows the highest token that wrote it.
struct Orders(Connection);

impl Orders {
    fn create() -> Result<Self> {
        let database = Connection::open_in_memory()?;
        database.execute_batch(
            "CREATE TABLE orders (id INTEGER PRIMARY KEY, state TEXT NOT NULL, token INTEGER NOT NULL);
             INSERT INTO orders VALUES (42, 'new', 0)",
        )?;
        Ok(Self(database))
    }

    /// Whoever comes last wins.
    fn write(&self, id: i64, state: &str) -> Result<()> {
        self.0.execute("UPDATE orders SET state = ?2 WHERE id = ?1", params![id, state])?;
        Ok(())
    }

    /// `false`: a later holder of the lock has written. `<=` and not `<`, as one holder may write more than once.
    fn write_fenced(&self, id: i64, state: &str, token: u64) -> Result<bool> {
        let sql = "UPDATE orders SET state = ?2, token = ?3 WHERE id = ?1 AND token <= ?3";
        // Tokens are at most i64::MAX: a Redis counter ends there too.
        Ok(self.0.execute(sql, params![id, state, i64::try_from(token)?])? == 1)
    }

    fn state(&self, id: i64) -> Result<String> {
        Ok(self.0.query_row("SELECT state FROM orders WHERE id = ?1", [id], |row| row.get(0))?)
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let url = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => None,
        ["--url", url] => Some(url),
        _ => return Err("the arguments are: nothing, or --url redis://host:port".into()),
    };
    let [slow, fast] = clients(url).await?;
    let name = format!("order:{}", std::process::id());
    let orders = Orders::create()?;

    // Its lease is short and not renewed, so that the pause need not be long.
    let lease = Duration::from_secs(1);
    let paused = slow.fenced_lock(&name).acquire().lease(lease).guard().await?.ok_or("nobody else is here")?;
    println!("slow: has the lock, token {}", paused.token());
    assert!(paused.is_valid(), "it looks, as it should");
    println!("slow: it is mine, I may write .. (paused here)");

    let guard = fast.fenced_lock(&name).guard().await?;
    println!("fast: has the lock, token {}", guard.token());
    assert!(guard.token() > paused.token());
    assert!(orders.write_fenced(42, "paid, by fast", guard.token())?);

    println!("slow: .. so I write");
    assert!(!orders.write_fenced(42, "cancelled, by slow", paused.token())?, "the WHERE keeps it out");
    assert_eq!(orders.state(42)?, "paid, by fast");
    println!("with the token:    {}", orders.state(42)?);

    // What is on the lock's server needs no token of its own: the check and the write are one call.
    let key = format!("{{{name}}}:state");
    let script = "return redis.call('SET', KEYS[1], ARGV[1])";
    guard.run_if_held(script, &[&key], &["paid, by fast"]).await?;
    let late = paused.run_if_held(script, &[&key], &["cancelled, by slow"]).await;
    assert!(matches!(late, Err(RunError::Lost(_))), "{late:?}");
    guard.run_if_held("return redis.call('DEL', KEYS[1])", &[&key], &[]).await?;
    println!("by run_if_held:    {}", late.map_or_else(|why| why.to_string(), |_| String::new()));

    orders.write(42, "cancelled, by slow")?;
    println!("without the token: {}", orders.state(42)?);
    assert_eq!(orders.state(42)?, "cancelled, by slow", "the late write has won");

    guard.unlock().await?;
    slow.shutdown(Duration::from_secs(5)).await?;
    fast.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}

async fn clients(url: Option<&str>) -> Result<[Locks; 2]> {
    if let Some(url) = url {
        return Ok([Locks::connect(url).await?, Locks::connect(url).await?]);
    }
    let server = EmbeddedServer::new();
    Ok([server.connect(), server.connect()])
}
