//! Waits for the turn of a run. A turn is the right to start a run now. A call that receives the result of an earlier
//! run needs no turn. This module never runs a script.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::CancellationToken;
use tracing::instrument;

use crate::executor::{Echo, Lane, RunLimits, Turn};
use crate::gateway::{AuthorizedScript, Stdin};
use crate::ledger::UserName;
use crate::logging::SPANS;

use super::once::{Asked, Before, Lookup, Once, Part};
use super::packages::Chosen;
use super::{Permit, Scripts};

/// The settings of one run of a script.
#[derive(Debug, Clone)]
pub(crate) struct RunRequest {
    pub(crate) limits: RunLimits,
    pub(crate) stdin: Stdin,
    /// The expression that is evaluated after the script, as an index into the expressions that were decided with the
    /// script.
    pub(crate) call: Option<usize>,
    /// Receives the output of the script while it runs.
    pub(crate) echo: Echo,
    /// Cancelling this token ends the run.
    pub(crate) cancel: CancellationToken,
}

impl RunRequest {
    /// Creates the request for a script with empty standard input, and without live output.
    pub(crate) fn new(limits: RunLimits, cancel: CancellationToken) -> Self {
        Self { limits, stdin: Stdin::default(), call: None, echo: Echo::default(), cancel }
    }
}

/// The right to start a run of a script, with the executor that was chosen for the script.
pub(crate) struct ScriptTurn {
    pub(super) chosen: Chosen,
    pub(super) part: Part,
    /// `None` if the call receives the result of an earlier run.
    _turn: Option<Turn>,
}

impl ScriptTurn {
    /// Returns whether packages that the script lists could not be installed. The script then runs without them.
    pub(crate) fn lacks_packages(&self) -> bool {
        matches!(self.chosen, Chosen::NotInstalled)
    }
}

/// The parameters of a wait in the queue of runs.
#[derive(Clone, Copy)]
struct Place<'a> {
    user: Option<&'a str>,
    lane: Lane,
    waits: &'a AtomicBool,
    cancel: &'a CancellationToken,
}

impl Scripts {
    /// Waits for the packages that the script lists, if the server installs them. Then waits until the permit's user
    /// may start a run. `lane` is the kind of run. Each kind has its own limit on concurrent runs, see
    /// [`Turns::take`](crate::executor::Turns::take). The turn is valid only for this request.
    #[instrument(target = SPANS, name = "queue.wait", skip_all)]
    pub(crate) async fn turn(
        &self,
        permit: &Permit,
        request: &RunRequest,
        lane: Lane,
        waits: &AtomicBool,
        cancel: &CancellationToken,
    ) -> Option<ScriptTurn> {
        waits.store(true, Ordering::Relaxed);
        let chosen = self.packages_for(permit, cancel).await?;
        self.turn_with(chosen, permit, request, lane, waits, cancel).await
    }

    /// Waits until the permit's user may start a run of the kind `lane`. `chosen` is the executor with the script's
    /// packages.
    pub(crate) async fn turn_with(
        &self,
        chosen: Chosen,
        permit: &Permit,
        request: &RunRequest,
        lane: Lane,
        waits: &AtomicBool,
        cancel: &CancellationToken,
    ) -> Option<ScriptTurn> {
        let user = permit.user().map(UserName::as_str);
        let place = Place { user, lane, waits, cancel };
        let lookup = self.lookup(&chosen, permit, request).await;
        let (part, turn) = match (&self.once, lookup) {
            (Some(once), Some(lookup)) => self.shared_turn(once, lookup, request, place).await?,
            (_, None) | (None, _) => (Part::Alone, Some(self.take(place).await?)),
        };
        Some(ScriptTurn { chosen, part, _turn: turn })
    }

    /// Begins the lookup of an earlier result. Returns `None` if no earlier result can be used.
    async fn lookup(
        &self,
        chosen: &Chosen,
        permit: &Permit,
        request: &RunRequest,
    ) -> Option<Box<Lookup>> {
        let once = self.once.as_ref()?;
        let asked = Asked {
            user: permit.user().map(UserName::as_str),
            limits: request.limits,
            lacks_packages: matches!(chosen, Chosen::NotInstalled),
        };
        let executor = chosen.executor(&self.executor);
        once.lookup(script_of(permit, request), asked, &**executor).await
    }

    /// Finds the result of an earlier run, or waits for a turn. If another call is running the same script, first waits
    /// for the result of that run. This wait needs no turn.
    async fn shared_turn(
        &self,
        once: &Once,
        mut lookup: Box<Lookup>,
        request: &RunRequest,
        place: Place<'_>,
    ) -> Option<(Part, Option<Turn>)> {
        loop {
            place.waits.store(true, Ordering::Relaxed);
            match once.before_turn(&lookup, &request.cancel).await {
                Before::Later(later) => {
                    self.turns.room_opens(place.lane, place.user, place.cancel).await?;
                    place.waits.store(false, Ordering::Relaxed);
                    return Some((Part::Later(later), None));
                }
                Before::Alone => return Some((Part::Alone, Some(self.take(place).await?))),
                Before::Shared => {
                    let turn = self.take(place).await?;
                    match once.claim(lookup) {
                        Ok(first) => return Some((first, Some(turn))),
                        // Another call has begun the same run during the wait for the turn. Release the turn, and
                        // wait for that run.
                        Err(unclaimed) => lookup = unclaimed,
                    }
                }
            }
        }
    }

    async fn take(&self, Place { user, lane, waits, cancel }: Place<'_>) -> Option<Turn> {
        self.turns.take(lane, user, waits, cancel).await
    }
}

/// Returns the script of a permit, with the standard input and the expression of a request.
pub(super) fn script_of(permit: &Permit, request: &RunRequest) -> AuthorizedScript {
    let script = permit.script().clone();
    script.with_stdin(request.stdin.clone()).with_call(request.call)
}
