//! Tokens in a database that replicas share.

use serde_json::json;

use super::{HttpServer, soon, two_replicas};
use crate::governed::Governed;
use crate::harness::postgres::Postgres;

tests! {
    needs [Postgres, Sandbox]:
        a_token_is_worth_the_same_at_all_replicas;
}

fn a_token_is_worth_the_same_at_all_replicas() {
    let database = Postgres::start();
    let governed = Governed::sharing("ledger", Some(database.database()));
    let replicas = two_replicas(&governed);
    let asked = |replica: &HttpServer, token: &str| {
        replica.stateless_as(token, "tools/list", json!({})).status
    };
    let statuses = |token: &str| [&replicas[0], &replicas[1]].map(|replica| asked(replica, token));
    let made = governed.token("ann", "user");
    assert_eq!(statuses(&made), [200, 200]);
    assert_eq!(statuses(&format!("qwedmcp_{}", "A".repeat(43))), [401, 401]);
    let revoked = governed.command(&["token", "revoke", "4"]);
    assert!(revoked.status.success(), "{revoked:?}");
    assert_eq!(statuses(&made), [401, 401]);
    // Nobody is let in while nobody can be asked.
    assert_eq!(statuses(&governed.user), [200, 200]);
    database.kill();
    assert_eq!(statuses(&governed.user), [503, 503]);
    assert_ne!(replicas[0].admin("/readyz").status, 200);
    database.begin();
    assert_eq!(statuses(&governed.user), [200, 200]);
    soon("it is ready again", || replicas[0].admin("/readyz").status == 200);
}
