//! Environments with the packages that a script lists in its header (PEP 723), if the admin allows these packages
//! (`QWED_MCP_ENV_ALLOW`).
//!
//! An environment has the packages of one list. It is made before the script takes its turn, and stays for other scripts
//! with the same list, also of later servers. Packages are installed as in `qwed-mcp env create`: from wheels, so that none of
//! their code runs outside of the sandbox. Scripts without such a header never use these environments.
//!
//! Environments are made one after another, on a thread of their own, because reading, compiling and removing packages
//! blocks. An environment that no call waits for any more is not begun.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use thiserror::Error;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::config::Settings;
use crate::data_folder::NoDataFolder;
use crate::environments::{
    BuildError, Builder, ChangeError, Environments, Lock, LockError, Order, PythonWanted,
    Requirement,
};
use crate::executor::{Executor, Installation};
use crate::gateway::AuthorizedScript;
use crate::logging::Causes;

use super::missing_module::{Dependencies, locked_package, missing};

/// The maximum number of environments. Before one more is made, the oldest environment that no server uses is removed.
const ENVIRONMENTS_MAX: usize = 8;
/// The maximum time to make an environment, including the time for which another process makes one.
const MAKE_TIMEOUT: Duration = Duration::from_secs(600);
/// The pause after which packages that could not be installed are tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(60);
/// The interval at which this server looks whether another process still makes environments.
const BUSY_PAUSE: Duration = Duration::from_millis(500);

/// The environments for packages of scripts.
pub(super) struct ScriptPackages {
    /// The names of the packages that the admin allows.
    allowed: BTreeSet<String>,
    /// Whether environments are made. Otherwise only existing ones are used.
    makes: bool,
    settings: Settings,
    /// The executor of scripts without packages of their own.
    executor: Arc<dyn Executor>,
    environments: Arc<Mutex<BTreeMap<Vec<String>, Made>>>,
    /// The right to make an environment.
    maker: Arc<Semaphore>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// An environment that is being made, is complete, or could not be made.
#[derive(Clone)]
struct Made {
    /// The time of the last script that needed the environment.
    needed: Instant,
    /// The number of calls that wait for the environment.
    waiting: Arc<AtomicUsize>,
    /// Set when the making has ended.
    result: Arc<OnceLock<Result<Own, NotMade>>>,
    /// Cancelled after `result` is set.
    has_ended: CancellationToken,
}

/// A complete environment.
#[derive(Clone)]
struct Own {
    executor: Arc<dyn Executor>,
    python: PathBuf,
}

/// The reason why there is no environment. The log has the details.
#[derive(Debug, Clone, Copy)]
enum NotMade {
    /// The packages could not be installed. The value is the time of the failure.
    Failed(Instant),
    /// No call waited any more.
    NotNeeded,
}

/// A call that waits for an environment.
struct Waiting(Arc<AtomicUsize>);

impl Waiting {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The executor for a script.
#[derive(Default)]
pub(crate) enum Chosen {
    /// The executor of scripts without packages of their own.
    #[default]
    Usual,
    /// The packages that the script lists could not be installed, so it runs in the usual executor.
    NotInstalled,
    /// An executor with the packages that the script lists.
    Own(Arc<dyn Executor>),
}

impl Chosen {
    /// Returns the executor of the script. `usual` is the executor of scripts without packages of their own.
    pub(super) fn executor<'e>(&'e self, usual: &'e Arc<dyn Executor>) -> &'e Arc<dyn Executor> {
        match self {
            Self::Usual | Self::NotInstalled => usual,
            Self::Own(executor) => executor,
        }
    }
}

/// The reason why an environment could not be made.
#[derive(Debug, Error)]
enum MakeError {
    #[error(transparent)]
    NoFolder(#[from] NoDataFolder),
    #[error("the built-in lock file cannot be used")]
    Lock(#[from] LockError),
    #[error(transparent)]
    Change(#[from] ChangeError),
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error(
        "running servers use all {ENVIRONMENTS_MAX} environments for packages of scripts; `qwed-mcp env list` shows them"
    )]
    NoRoom,
    #[error("its interpreter cannot be used")]
    NotUsable,
    #[error("this command installs nothing, and no environment has these packages")]
    NotThere,
    #[error("it took longer than {} s", MAKE_TIMEOUT.as_secs())]
    TimedOut,
}

impl ScriptPackages {
    /// Returns `None` if the admin allows no packages. With a policy no package is installed, because the program that
    /// installs packages could come from the workspace. Code of the workspace must not run outside of the sandbox.
    pub(super) fn new(settings: &Settings, executor: &Arc<dyn Executor>) -> Option<Self> {
        // The settings have only valid names.
        let names = settings.env_allow.iter().filter_map(|name| name.parse::<Requirement>().ok());
        let allowed: BTreeSet<String> = names.map(|it| it.name().to_owned()).collect();
        if allowed.is_empty() {
            return None;
        }
        if settings.policy.is_some() {
            tracing::warn!("QWED_MCP_ENV_ALLOW is not used, because QWED_MCP_POLICY is set");
            return None;
        }
        Some(Self {
            allowed,
            makes: true,
            settings: settings.clone(),
            executor: Arc::clone(executor),
            environments: Arc::default(),
            maker: Arc::new(Semaphore::new(1)),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        })
    }

    /// Makes only existing environments be used.
    pub(super) fn that_exist(self) -> Self {
        Self { makes: false, ..self }
    }

    /// Returns the names of the packages that the admin allows.
    pub(super) fn allowed(&self) -> impl Iterator<Item = &str> {
        self.allowed.iter().map(String::as_str)
    }

    /// Returns the executor for a script, and makes the environment that the script needs. An environment that was begun is
    /// made to its end, because the next call may need it. Returns `None` if `cancel` is cancelled first.
    pub(super) async fn choose(
        &self,
        script: &AuthorizedScript,
        cancel: &CancellationToken,
    ) -> Option<Chosen> {
        let Some((wanted, installation)) = self.wanted(script).await else {
            return Some(Chosen::Usual);
        };
        loop {
            let made = self.made(&wanted, &installation);
            let _waiting = Waiting::new(&made.waiting);
            cancel.run_until_cancelled(made.has_ended.cancelled()).await?;
            match made.result.get() {
                Some(Ok(own)) => return Some(Chosen::Own(Arc::clone(&own.executor))),
                // This call came when it was decided that no call needs the environment.
                Some(Err(NotMade::NotNeeded)) => {}
                Some(Err(NotMade::Failed(_))) | None => return Some(Chosen::NotInstalled),
            }
        }
    }

    /// Stops making environments. Completes when incomplete environments are removed.
    pub(super) async fn shut_down(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Returns the packages of the environment that a script needs, and the installation of scripts. Returns `None` if the
    /// script lists no packages, if all are installed, or if it lists a package that is neither allowed nor one of
    /// `qwed-mcp env create`.
    async fn wanted(&self, script: &AuthorizedScript) -> Option<(Vec<Requirement>, Installation)> {
        let listed = Dependencies::of(script.source().as_str()).packages;
        let may_be_installed = |it: &Requirement| {
            self.allowed.contains(it.name()) || Lock::sdk_names().contains(it.name())
        };
        if listed.is_empty() || !listed.iter().all(may_be_installed) {
            return None;
        }
        let installation = self.executor.installation().await?;
        let (folders, names) = (installation.packages.clone(), listed.clone());
        let is_missing = move || !missing(&names, &folders).is_empty();
        if !tokio::task::spawn_blocking(is_missing).await.ok()? {
            return None;
        }
        let mut wanted: Vec<Requirement> = listed.iter().map(Requirement::normal).collect();
        // A header often omits the packages that scripts can import anyway.
        let modules = script.imports().unwrap_or_default().iter();
        let modules: BTreeSet<&str> =
            modules.filter_map(|module| module.split('.').next()).collect();
        for top in modules {
            let package = locked_package(top).and_then(|package| package.parse().ok());
            let is_listed = |it: &Requirement| wanted.iter().any(|other| other.is_for(it.name()));
            wanted.extend(package.filter(|it| !is_listed(it)));
        }
        wanted.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        wanted.dedup();
        Some((wanted, installation))
    }

    /// Returns the environment with these packages. Starts to make it, unless it exists or could not be made a moment ago.
    fn made(&self, wanted: &[Requirement], installation: &Installation) -> Made {
        let mut environments = self.environments.lock().unwrap_or_else(PoisonError::into_inner);
        let key: Vec<String> = wanted.iter().map(ToString::to_string).collect();
        if let Some(known) = environments.get_mut(&key)
            && known.is_current()
        {
            known.needed = Instant::now();
            return known.clone();
        }
        environments.retain(|_, made| made.is_current());
        let made = Made {
            needed: Instant::now(),
            waiting: Arc::new(AtomicUsize::new(0)),
            result: Arc::default(),
            has_ended: CancellationToken::new(),
        };
        self.make(wanted, installation, made.clone());
        environments.insert(key, made.clone());
        made
    }

    /// Makes an environment on a thread of its own, when it is the turn of the environment.
    fn make(&self, wanted: &[Requirement], installation: &Installation, made: Made) {
        let work = Work {
            wanted: wanted.to_vec(),
            python: installation.program.clone(),
            makes: self.makes,
            settings: self.settings.clone(),
            executor: Arc::clone(&self.executor),
        };
        let (maker, stop, runtime) =
            (Arc::clone(&self.maker), self.stop.clone(), Handle::current());
        let environments = Arc::clone(&self.environments);
        self.tasks.spawn(async move {
            // Also after a panic, so that no call waits forever.
            let _ended = made.has_ended.clone().drop_guard();
            let failed = || Err(NotMade::Failed(Instant::now()));
            let Some(_turn) = stop.run_until_cancelled(maker.acquire_owned()).await else { return };
            if made.waiting.load(Ordering::Relaxed) == 0 {
                let _ = made.result.set(Err(NotMade::NotNeeded));
                return;
            }
            forget_oldest(&mut environments.lock().unwrap_or_else(PoisonError::into_inner));
            let environment = tokio::task::spawn_blocking(move || {
                let environment = timeout(MAKE_TIMEOUT, Box::pin(work.environment()));
                let environment = runtime.block_on(stop.run_until_cancelled(environment))?;
                Some(work.reported(environment.unwrap_or(Err(MakeError::TimedOut))))
            });
            let environment = environment.await.ok().flatten().unwrap_or_else(failed);
            // Nothing else sets it.
            let _ = made.result.set(environment);
        });
    }
}

/// Forgets the complete environment that was needed longest ago, if there are too many. An environment can only be removed
/// when no executor uses it.
fn forget_oldest(environments: &mut BTreeMap<Vec<String>, Made>) {
    let complete = environments.iter().filter_map(|(key, made)| {
        let own = made.result.get()?.as_ref().ok()?;
        Some((key, made.needed, Arc::strong_count(&own.executor) == 1))
    });
    let complete: Vec<_> = complete.collect();
    if complete.len() < ENVIRONMENTS_MAX {
        return;
    }
    let unused = complete.into_iter().filter(|(.., is_unused)| *is_unused);
    let oldest = unused.min_by_key(|(_, needed, _)| *needed).map(|(key, ..)| key.clone());
    if let Some(oldest) = oldest {
        environments.remove(&oldest);
    }
}

impl Made {
    /// Returns whether the environment is there or is being made, or could not be made a moment ago.
    fn is_current(&self) -> bool {
        match self.result.get() {
            None => !self.has_ended.is_cancelled(),
            Some(Ok(own)) => own.python.exists(),
            Some(Err(NotMade::Failed(at))) => at.elapsed() < RETRY_PAUSE,
            Some(Err(NotMade::NotNeeded)) => false,
        }
    }
}

/// The making of one environment.
struct Work {
    wanted: Vec<Requirement>,
    /// The interpreter of other scripts, from which the environment gets its Python.
    python: PathBuf,
    makes: bool,
    settings: Settings,
    executor: Arc<dyn Executor>,
}

impl Work {
    /// Returns an environment with the packages, which is made if it does not exist.
    async fn environment(&self) -> Result<Own, MakeError> {
        let environments = Environments::of(&self.settings)?.of_scripts();
        // The base Python: at its start, the interpreter of a virtual environment would run code of installed packages.
        let base = self.python.canonicalize().map_err(|_| MakeError::NotUsable)?;
        let order = Order {
            lock: Lock::default(),
            constraints: Lock::sdk()?,
            with: self.wanted.clone(),
            python: PythonWanted::Program(base.clone()),
            is_offline: false,
        };
        loop {
            if let Some(found) = environments.matching(&order.lock_sha256(), &order.with(), &base) {
                // `found` is in use until the executor uses the environment itself.
                return self.own(found.environment.python()).await.map(|(own, _)| own);
            }
            match self.make(&environments, &order).await {
                // Another process may be making the same environment.
                Err(MakeError::Change(ChangeError::Busy { .. })) => sleep(BUSY_PAUSE).await,
                made => return made,
            }
        }
    }

    async fn make(&self, environments: &Environments, order: &Order) -> Result<Own, MakeError> {
        if !self.makes {
            return Err(MakeError::NotThere);
        }
        let turn = environments.turn()?;
        if !turn.make_room(ENVIRONMENTS_MAX)? {
            return Err(MakeError::NoRoom);
        }
        tracing::info!(names = %order.with().join(", "), "installing packages of a script");
        let draft = Builder::new(&turn).build(order, &mut |_| {}).await?;
        let (_, version) = self.own(draft.python()).await?;
        let made = draft.complete(version)?;
        // No other process removes the environment before this one uses it, because this one still has the turn.
        self.own(made.python()).await.map(|(own, _)| own)
    }

    /// Returns an executor for an interpreter that works in the sandbox, and the version of the interpreter.
    async fn own(&self, python: PathBuf) -> Result<(Own, String), MakeError> {
        let settings = Settings { python: Some(python.clone().into()), ..self.settings.clone() };
        let executor = self.executor.with_interpreter(&settings).ok_or(MakeError::NotUsable)?;
        let surroundings = executor.surroundings().await.ok_or(MakeError::NotUsable)?;
        Ok((Own { executor, python }, surroundings.version.clone()))
    }

    /// Logs the reason for a failure.
    fn reported(&self, made: Result<Own, MakeError>) -> Result<Own, NotMade> {
        made.map_err(|error| {
            let names: Vec<&str> = self.wanted.iter().map(Requirement::as_str).collect();
            let (names, error) = (names.join(", "), Causes(&error));
            tracing::warn!(%names, %error, "packages of a script were not installed");
            NotMade::Failed(Instant::now())
        })
    }
}
