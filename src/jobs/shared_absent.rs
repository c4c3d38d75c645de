//! Replaces the module for jobs in PostgreSQL if the program is built without the feature `teams`.

use std::sync::Arc;

use crate::config::Settings;
use crate::postgres::Database;
use crate::scripts::Scripts;

use super::plane::Jobs;

/// Never called, because `Database` has no values in such a program.
pub(crate) fn share(database: Database, _: Arc<Scripts>, _: &Settings) -> Arc<dyn Jobs> {
    match database {}
}
