//! What the clients of a lock's holders say of themselves.

use std::collections::{BTreeMap, BTreeSet};

use lockson::{Description, Locks, Presence, QueryError};

/// By id; who says nothing is not there.
pub type Clients = BTreeMap<String, Presence>;

pub async fn of(locks: &Locks, found: &Description) -> Result<Clients, QueryError> {
    let mut said = Clients::new();
    for client in found.holders.iter().map(|holder| &holder.client).collect::<BTreeSet<_>>() {
        said.extend(locks.admin().client(client).await?.map(|presence| (client.clone(), presence)));
    }
    Ok(said)
}
