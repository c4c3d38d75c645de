//! Environments with the packages that a script lists in its header (PEP 723), if the admin allows these packages
//! (`QWED_MCP_ENV_ALLOW`).
//!
//! Each environment contains the packages of one list. The environment is made before the script waits for its turn.
//! Other scripts with the same list use the same environment, even after a restart of the server. Packages are
//! installed from wheels, as in `qwed-mcp env create`, so that no code of a package runs outside of the sandbox.
//! Scripts without a list of packages never use these environments.
//!
//! Environments are made one after another, on a separate thread, because reading, compiling and removing packages
//! blocks. An environment is not begun if no call waits for it any more.

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

/// The maximum number of environments. Before a further environment is made, the oldest environment that no server
/// uses is removed.
const ENVIRONMENTS_MAX: usize = 8;
/// The maximum time to make an environment, including the wait while another process makes environments.
const MAKE_TIMEOUT: Duration = Duration::from_secs(600);
/// If packages could not be installed, the server does not try to install them again during this time.
const RETRY_PAUSE: Duration = Duration::from_secs(60);
/// The interval at which this server checks whether another process still makes environments.
const BUSY_PAUSE: Duration = Duration::from_millis(500);

pub(super) struct ScriptPackages {
    /// The names of the packages that the admin allows.
    allowed: BTreeSet<String>,
    /// Whether missing environments are made. Otherwise only existing environments are used.
    makes: bool,
    settings: Settings,
    /// The executor of scripts without an environment of their own.
    executor: Arc<dyn Executor>,
    environments: Arc<Mutex<BTreeMap<Vec<String>, Made>>>,
    /// The semaphore for making environments. It has one permit, so that environments are made one after another.
    maker: Arc<Semaphore>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// An environment that is being made, is complete, or could not be made.
#[derive(Clone)]
struct Made {
    /// The last time at which a script needed the environment.
    needed: Instant,
    /// The number of calls that wait for the environment.
    waiting: Arc<AtomicUsize>,
    /// Set when the environment is complete, or could not be made.
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

/// The reason why an environment does not exist. The log contains the details.
#[derive(Debug, Clone, Copy)]
enum NotMade {
    /// The packages could not be installed. The value is the time of the failure.
    Failed(Instant),
    /// No call waited for the environment any more.
    NotNeeded,
}

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

#[derive(Default)]
pub(crate) enum Chosen {
    /// The executor of scripts without an environment of their own.
    #[default]
    Usual,
    /// The packages that the script lists could not be installed, so it runs in the usual executor.
    NotInstalled,
    /// An executor with the packages that the script lists.
    Own(Arc<dyn Executor>),
}

impl Chosen {
    /// Returns the executor of the script. `usual` is the executor of scripts without an environment of their own.
    pub(super) fn executor<'e>(&'e self, usual: &'e Arc<dyn Executor>) -> &'e Arc<dyn Executor> {
        match self {
            Self::Usual | Self::NotInstalled => usual,
            Self::Own(executor) => executor,
        }
    }
}

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
    /// Reads the allowed packages from the settings. Returns `None` if the admin allows no packages, or if the admin
    /// has configured a policy. With a policy, the program that installs packages could come from the workspace, and
    /// code of the workspace must not run outside of the sandbox.
    pub(super) fn new(settings: &Settings, executor: &Arc<dyn Executor>) -> Option<Self> {
        // All names parse, because the settings contain only valid names.
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

    /// Turns off the making of environments. Only existing environments are used.
    pub(super) fn without_making(self) -> Self {
        Self { makes: false, ..self }
    }

    pub(super) fn allowed(&self) -> impl Iterator<Item = &str> {
        self.allowed.iter().map(String::as_str)
    }

    /// Returns the executor for a script, and makes the environment that the script needs. Returns `None` if `cancel`
    /// is cancelled first. The environment is completed even then, because the next call may need it.
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
                // The environment was given up just before this call began to wait. Try again.
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

    /// Returns the packages of the environment that a script needs, and the Python installation of scripts. Returns
    /// `None` if the script lists no packages, or if all of them are installed. Also returns `None` if the script lists
    /// a package that is not allowed and that `qwed-mcp env create` does not install.
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
        // Add the packages of `qwed-mcp env create` that the script imports, because headers often omit them.
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

    /// Returns the environment with these packages. Starts to make it, unless it exists, is being made, or could not
    /// be made a short time ago.
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

    /// Makes an environment on a separate thread. Environments that were requested earlier are made first.
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
            // This guard cancels `has_ended` also after a panic, so that no call waits forever.
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
            // `set` succeeds, because only this task sets the result.
            let _ = made.result.set(environment);
        });
    }
}

/// If too many environments are complete, drops the executor of an unused environment: the environment that no script
/// has needed for the longest time. An environment can be removed only when no executor uses it.
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
    /// Returns whether the environment exists, is being made, or could not be made a short time ago.
    fn is_current(&self) -> bool {
        match self.result.get() {
            None => !self.has_ended.is_cancelled(),
            Some(Ok(own)) => own.python.exists(),
            Some(Err(NotMade::Failed(at))) => at.elapsed() < RETRY_PAUSE,
            Some(Err(NotMade::NotNeeded)) => false,
        }
    }
}

/// The task of making one environment.
struct Work {
    wanted: Vec<Requirement>,
    /// The interpreter of scripts without an environment of their own. The new environment uses the base Python of this
    /// interpreter.
    python: PathBuf,
    makes: bool,
    settings: Settings,
    executor: Arc<dyn Executor>,
}

impl Work {
    /// Returns an environment with the packages. Makes it if it does not exist.
    async fn environment(&self) -> Result<Own, MakeError> {
        let environments = Environments::of(&self.settings)?.of_scripts();
        // Use the base Python, because the interpreter of a virtual environment would run code of installed packages
        // at its start.
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
                // `found` marks the environment as in use until the new executor has marked it as in use.
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
        // No other process can remove the environment before this process uses it, because this process still holds
        // `turn`.
        self.own(made.python()).await.map(|(own, _)| own)
    }

    /// Returns an executor for the interpreter `python`, and the version of the interpreter. Fails if the interpreter
    /// does not work in the sandbox.
    async fn own(&self, python: PathBuf) -> Result<(Own, String), MakeError> {
        let settings = Settings { python: Some(python.clone().into()), ..self.settings.clone() };
        let executor = self.executor.with_interpreter(&settings).ok_or(MakeError::NotUsable)?;
        let surroundings = executor.surroundings().await.ok_or(MakeError::NotUsable)?;
        Ok((Own { executor, python }, surroundings.version.clone()))
    }

    fn reported(&self, made: Result<Own, MakeError>) -> Result<Own, NotMade> {
        made.map_err(|error| {
            let names: Vec<&str> = self.wanted.iter().map(Requirement::as_str).collect();
            let (names, error) = (names.join(", "), Causes(&error));
            tracing::warn!(%names, %error, "packages of a script were not installed");
            NotMade::Failed(Instant::now())
        })
    }
}
