//! Finds the reasons why two runs of the same script may differ, from the names that the script uses. This module never
//! runs the script.
//!
//! The table lists functions that draw random numbers, read a clock, or return other values that change from run to
//! run. It covers the standard library and known libraries. An empty result is not a proof, because a script can hide
//! its behaviour.

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::executor::{Determinism, Observed};
use crate::gateway::ScriptNames;
use crate::safety::{UNSEEN, is_in_standard_library};

/// A reason why two runs of a script may differ. Receipts contain the reason's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reason {
    Time,
    Random,
    Secrets,
    Uuid,
    Threads,
    Files,
    Memory,
    Unknown,
}

impl Reason {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Random => "random",
            Self::Secrets => "secrets",
            Self::Uuid => "uuid",
            Self::Threads => "threads",
            Self::Files => "files",
            Self::Memory => "memory",
            Self::Unknown => "unknown",
        }
    }
}

/// The way in which a deterministic run makes the functions of one row return the same values in each run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pinned {
    Never,
    /// The functions draw numbers from `random` or `numpy.random`. A deterministic run sets the seeds of both.
    BySeeds,
    /// The results depend on the addresses of objects. A deterministic run makes the addresses the same in each run, if
    /// the machine supports this.
    ByAddresses,
    /// The functions read a clock, or random bits of the kernel. If the machine supports it, a deterministic run
    /// replaces both by values that are the same in each run.
    ByClock,
    /// The functions return paths or PIDs. These are the same in each run if the run has a file tree of its own.
    ByTree,
}

impl Pinned {
    /// Returns whether a run with the settings `determinism` takes this measure.
    pub(super) fn applies(self, determinism: Option<Determinism>) -> bool {
        determinism.is_some_and(|determinism| match self {
            Self::Never => false,
            Self::BySeeds => true,
            Self::ByAddresses => determinism.fixes_addresses,
            Self::ByClock => determinism.clock.is_some(),
            Self::ByTree => determinism.has_own_tree,
        })
    }
}

/// The condition under which a row of the table applies to a script. If a string contains several items, they are
/// separated by spaces.
#[derive(Debug, Clone, Copy)]
enum Uses {
    /// The script uses one of these modules or objects, or a member of them. The items are qualified names.
    Paths(&'static str),
    /// The script imports one of the libraries, and uses a member with one of these names. The member may belong to a
    /// module or to an unknown object.
    Members { libraries: &'static str, names: &'static str },
    /// The script imports one of the libraries, and uses a member whose name contains a word with one of the prefixes
    /// in `starts`.
    Words { libraries: &'static str, starts: &'static str },
    /// The script imports one of the libraries, and its source contains one of these texts. The comparison ignores
    /// case.
    Texts { libraries: &'static str, texts: &'static str },
    /// The script imports one of the libraries, and passes this keyword argument in a call. Calls of the functions in
    /// `but` are ignored.
    Keyword { libraries: &'static str, keyword: &'static str, but: &'static str },
    /// The script uses a qualified name of the first list, and also a qualified name of the second list.
    Both(&'static str, &'static str),
}

use Pinned::{ByAddresses, ByClock, BySeeds, ByTree, Never};
use Uses::{Both, Keyword, Members, Paths, Texts, Words};

/// The table of the functions that make runs differ. Each row has the condition under which the row applies to a
/// script, the reason for a difference, the measure that prevents the difference, and an explanation.
#[rustfmt::skip]
const ROWS: &[(Uses, Reason, Pinned, &str)] = &[
    (Paths("time datetime calendar zoneinfo sched timeit os.times os.getloadavg"), Reason::Time, ByClock,
     "the clock goes on"),
    (Paths("logging http wsgiref email xmlrpc mailbox"), Reason::Time, ByClock,
     "headers, cookies and records have the date"),
    (Paths("cProfile profile pstats trace unittest"), Reason::Time, ByClock,
     "they measure how long something takes, and print it"),
    (Paths("resource"), Reason::Time, Never, "it shows the processor time, and how much memory the process used"),
    (Paths("gzip zipfile tarfile"), Reason::Time, ByClock, "archives have the time at which they were made"),
    (Paths("sqlite3"), Reason::Time, ByClock, "SQL has datetime('now') and CURRENT_TIMESTAMP"),
    (Paths("signal select selectors"), Reason::Time, Never, "they end when a time has passed, or something happens"),
    (Members { libraries: "pandas numpy", names: "now today utcnow" }, Reason::Time, ByClock,
     "Timestamp.now() and the like"),
    (Texts { libraries: "pandas numpy", texts: "'now \"now 'today \"today" }, Reason::Time, ByClock,
     "datetime64 and to_datetime take these texts for the current time"),
    (Members { libraries: "dateutil", names: "parse parser rrule rruleset today" }, Reason::Time, ByClock,
     "a text without a date, and a rule without a start, begin today"),
    (Members { libraries: "pandas", names: "to_excel" }, Reason::Time, ByClock, "the workbook has the date"),
    (Members { libraries: "networkx", names: "generate_gexf write_gexf" }, Reason::Time, ByClock, "the file has the date"),
    (Members { libraries: "sympy mpmath", names: "timed timing" }, Reason::Time, ByClock, "they measure how long something takes"),
    (Texts { libraries: "scipy", texts: "trust-constr" }, Reason::Time, ByClock, "the result has its execution time"),
    (Texts { libraries: "scipy", texts: "time_limit maxtime" }, Reason::Time, ByClock, "the solver gives up at a time limit"),
    (Paths("faulthandler"), Reason::Time, Never, "it dumps the threads after a time"),
    (Texts { libraries: "matplotlib", texts: "svg pdf .ps .eps pgf" }, Reason::Time, ByClock,
     "these formats have the date, and ids that are drawn"),
    (Texts { libraries: "z3", texts: "'timeout \"timeout timeout= _timeout parallel :timeout 'rlimit \"rlimit rlimit= :rlimit" }, Reason::Time,
     Never, "a solver that gives up at a limit may come further the next time"),
    (Members { libraries: "z3", names: "TryFor ParOr ParThen" }, Reason::Time, Never, "they end at a time, or compete"),
    (Members { libraries: "z3", names: "statistics" }, Reason::Time, Never, "they have the time and the memory"),
    (Words { libraries: "qwed_finance", starts: "receipt responses" }, Reason::Time, ByClock,
     "receipts of the SDK have the date"),
    (Words { libraries: "qwed_legal", starts: "provenance" }, Reason::Time, ByClock, "provenance has the date"),
    (Words { libraries: "qwed_ucp", starts: "attestation" }, Reason::Time, ByClock, "attestations have the date"),

    (Paths("random numpy.random"), Reason::Random, BySeeds, "seeds come from the machine"),
    (Words { libraries: "statistics", starts: "sampl rand" }, Reason::Random, BySeeds, "drawn by random"),
    (Paths("email"), Reason::Random, BySeeds, "message ids and boundaries are drawn by random"),
    (Words { libraries: "numpy scipy pandas", starts: "rand sampl shuffl permut bootstrap resampl rvs choice" },
     Reason::Random, BySeeds, "drawn by numpy.random"),
    (Members { libraries: "scipy", names: "BarycentricInterpolator Halton LatinHypercube MonteCarloMethod \
        MultinomialQMC MultivariateNormalQMC PoissonDisk QMCEngine Sobol barycentric_interpolate basinhopping \
        check_grad clarkson_woodruff_transform differential_evolution directed_hausdorff draw dual_annealing dunnett \
        eigs eigsh goodness_of_fit kmeans kmeans2 monte_carlo_test multiscale_graphcorr multivariate_normal \
        multivariate_t power quadratic_assignment sobol_indices svds van_der_corput" }, Reason::Random, BySeeds,
     "methods that take random_state or rng, and draw where there is none"),
    (Paths("scipy.linalg.interpolative scipy.stats.qmc"), Reason::Random, BySeeds, "methods that draw"),
    (Words { libraries: "sympy", starts: "rand sampl" }, Reason::Random, BySeeds, "drawn by random"),
    (Texts { libraries: "sympy", texts: "randmatrix random_" }, Reason::Random, BySeeds,
     "texts that sympify evaluates"),
    (Members { libraries: "sympy", names: "Dummy numbered_symbols" }, Reason::Random, BySeeds,
     "the numbers of dummies start at a random one, and terms are in their order"),
    (Members { libraries: "sympy", names: "dh_private_key ecm elgamal_private_key encipher_bg encipher_elgamal \
        encipher_gm gm_public_key make_perm" }, Reason::Random, BySeeds, "they draw, where no seed is given"),
    (Words { libraries: "mpmath", starts: "rand" }, Reason::Random, BySeeds, "drawn by random"),
    (Words { libraries: "networkx", starts: "rand" }, Reason::Random, BySeeds, "drawn by random or numpy.random"),
    (Paths("networkx.approximation networkx.algorithms.approximation"), Reason::Random, BySeeds,
     "approximations draw"),
    (Members { libraries: "networkx", names: "AS_graph_generator LFR_benchmark_graph algebraic_connectivity \
        approximate_current_flow_betweenness_centrality arf_layout asadpour_atsp asyn_fluidc \
        asyn_lpa_communities barabasi_albert_graph betweenness_centrality binomial_graph configuration_model \
        connected_double_edge_swap connected_watts_strogatz_graph directed_configuration_model \
        directed_edge_swap directed_joint_degree_graph discrete_sequence double_edge_swap draw draw_networkx \
        draw_spring dual_barabasi_albert_graph duplication_divergence_graph edge_betweenness_centrality \
        erdos_renyi_graph expected_degree_graph extended_barabasi_albert_graph \
        fast_label_propagation_communities fiedler_vector forceatlas2_layout fruchterman_reingold_layout \
        geographical_threshold_graph geometric_soft_configuration_graph gn_graph gnc_graph gnr_graph \
        greedy_branching greedy_k_edge_augmentation joint_degree_graph kernighan_lin_bisection \
        lattice_reference leiden_communities leiden_partitions louvain_communities louvain_partitions \
        maximal_independent_set maybe_regular_expander maybe_regular_expander_graph navigable_small_world_graph \
        newman_watts_strogatz_graph omega panther_similarity panther_vector_similarity \
        partial_duplication_graph planted_partition_graph powerlaw_cluster_graph powerlaw_sequence \
        preferential_attachment_graph relaxed_caveman_graph rich_club_coefficient scale_free_graph sigma \
        simulated_annealing_tsp spanner spectral_bisection spectral_graph_forge spectral_ordering \
        spring_layout stochastic_block_model threshold_accepting_tsp watts_strogatz_graph waxman_graph \
        weighted_choice zipf_rv" }, Reason::Random, BySeeds, "they take a seed, and draw where there is none"),
    (Paths("sqlite3"), Reason::Random, ByClock, "SQL has random(), and SQLite sets its seed"),

    (Paths("secrets ssl crypt os.urandom os.getrandom random.SystemRandom"), Reason::Secrets, ByClock,
     "random bits of the machine"),
    (Words { libraries: "qwed_ucp", starts: "attestation" }, Reason::Secrets, ByClock, "a key that is drawn"),
    (Members { libraries: "pandas", names: "style Styler" }, Reason::Uuid, ByClock, "the ids of tables are drawn"),
    (Paths("uuid.uuid1"), Reason::Uuid, ByTree, "the number of the process is mixed into it"),
    (Members { libraries: "email", names: "make_msgid" }, Reason::Files, ByTree, "it contains the number of the process"),
    (Paths("uuid"), Reason::Uuid, ByClock, "random bits of the machine, or its clock"),
    (Words { libraries: "qwed_finance", starts: "receipt responses" }, Reason::Uuid, ByClock, "their ids"),
    (Words { libraries: "qwed_ucp", starts: "attestation" }, Reason::Uuid, ByClock, "their ids"),
    (Paths("threading concurrent multiprocessing _thread socket socketserver os.fork os.forkpty asyncio.to_thread"),
     Reason::Threads, Never, "the kernel chooses who is next"),
    (Members { libraries: "asyncio", names: "run_in_executor to_thread create_subprocess_exec open_connection \
        start_server" }, Reason::Threads, Never, "the event loop waits for others"),
    (Paths("asyncio queue"), Reason::Threads, ByClock, "waits end by the clock"),
    (Paths("tempfile os pathlib glob shutil fileinput posix"), Reason::Files, ByTree,
     "names of scratch files, and numbers of processes"),
    (Paths("os.sched_getaffinity os.sched_getscheduler os.getpriority os.nice os.sysconf os.statvfs os.fstatvfs \
        shutil.disk_usage"), Reason::Files, Never, "they show what else is on the machine"),
    (Members { libraries: "os pathlib glob shutil tempfile posix", names: "stat lstat fstat st_mtime st_ctime st_atime \
        st_mtime_ns st_ctime_ns st_atime_ns getmtime getctime getatime utime copystat copy2 touch" }, Reason::Files, Never,
     "the kernel sets the times of files"),
    (Members { libraries: "zipfile tarfile", names: "write add gettarinfo" }, Reason::Files, Never,
     "archives have the times of their files"),
    (Paths("gc weakref ctypes tracemalloc sys.getrefcount sys.getallocatedblocks"), Reason::Memory, Never,
     "when objects die, and what else is in memory"),
    (Paths("builtins.id unittest.mock faulthandler"), Reason::Memory, ByAddresses, "they show addresses"),
    (Members { libraries: "array", names: "buffer_info" }, Reason::Memory, ByAddresses, "it shows the address of an array"),
    (Paths(".__hash__ .__repr__ builtins.object.__hash__ builtins.object.__repr__"), Reason::Memory, ByAddresses,
     "the hash and the text of most objects contain their address"),
    (Members { libraries: "numpy", names: "as_strided" }, Reason::Memory, Never, "it shows memory outside of the array"),
    (Paths("builtins.set() builtins.hash() builtins.repr()"), Reason::Memory, ByAddresses,
     "functions, classes and most objects have their address as hash, and in their text"),
    (Members { libraries: "numpy", names: "ctypes __array_interface__ __array_struct__ byte_bounds" }, Reason::Memory,
     ByAddresses, "they show the address of an array"),
    (Paths("numpy.empty numpy.empty_like numpy.ndarray() numpy.ndarray.__new__ numpy.recarray() numpy.chararray() \
        numpy.ma.empty numpy.ma.empty_like numpy.ma.masked_all numpy.ma.masked_all_like numpy.matlib.empty \
        numpy.rec.recarray numpy.char.chararray *.empty *.empty_like *.ndarray"), Reason::Memory, Never,
     "arrays of memory that nothing has written"),
    (Keyword { libraries: "numpy", keyword: "where", but: "all amax amin any max mean min nanmax nanmean nanmin \
        nanprod nanstd nansum nanvar prod std sum var" }, Reason::Memory, Never,
     "where the condition is false, nothing writes the result"),
    (Both("builtins.set builtins.frozenset builtins.hash", "class builtins.object"), Reason::Memory, ByAddresses,
     "hashes of objects without a hash of their own are addresses, and sets are in the order of hashes"),

    (Paths("builtins.eval builtins.exec builtins.compile builtins.__import__ importlib runpy code codeop pickle \
        marshal shelve dbm sys.modules subprocess pdb bdb"), Reason::Unknown, Never,
     "what they load or run is not in the script"),
];

/// The libraries for which the table contains every known reason for a difference.
const LIBRARIES: [&str; 17] = [
    "dateutil",
    "gmpy2",
    "matplotlib",
    "mpl_toolkits",
    "mpmath",
    "networkx",
    "numpy",
    "pandas",
    "pytz",
    "qwed_finance",
    "qwed_legal",
    "qwed_ucp",
    "scipy",
    "six",
    "sympy",
    "tzdata",
    "z3",
];

/// Packages with native code that causes no difference between runs if clocks and random bits are the same in each run.
const NATIVE: [&str; 13] = [
    "PIL",
    "_cffi_backend",
    "bcrypt",
    "charset_normalizer",
    "contourpy",
    "cryptography",
    "fontTools",
    "jiter",
    "kiwisolver",
    "markupsafe",
    "pydantic_core",
    "rpds",
    "yaml",
];

/// Modules that the search also finds as members of other modules. For example, `statistics.random` is the module
/// `random`, because `statistics` imports it.
const HELD: [&str; 8] =
    ["random", "time", "datetime", "os", "uuid", "secrets", "tempfile", "threading"];

/// The names in a script, from the analysis.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Names<'a> {
    pub(crate) imports: &'a [String],
    /// The qualified names of the objects that the script uses. A name that begins with a dot is the name of a member
    /// of an unknown object.
    pub(crate) uses: &'a [String],
}

/// The reasons why two runs of a script may differ, from the analysis of the script. Each reason has the measure that
/// prevents the difference.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Differences(Vec<(Reason, Pinned)>);

impl Differences {
    /// Finds the reasons why two runs of a script may differ. `names` is `None` if the script was not analysed.
    pub(crate) fn of(names: Option<Names<'_>>, source: &str) -> Self {
        let Some(names) = names else { return Self(vec![(Reason::Unknown, Never)]) };
        let source = source.to_lowercase();
        let rows = ROWS.iter().filter(|(uses, ..)| names.have(*uses, &source));
        let mut found: Vec<_> = rows.map(|(_, word, pinned, _)| (*word, *pinned)).collect();
        let is_known = |import: &String| {
            let top = top(import);
            LIBRARIES.contains(&top) || is_in_standard_library(top)
        };
        if !names.imports.iter().all(is_known) || names.uses.iter().any(|name| name == UNSEEN) {
            found.push((Reason::Unknown, Never));
        }
        Self(found)
    }

    /// Returns the reasons that the measures in `determinism` do not remove. Assumes that all these measures will work
    /// in the run.
    pub(crate) fn before_run(&self, determinism: Option<Determinism>) -> BTreeSet<Reason> {
        let remaining = self.0.iter().filter(|(_, pinned)| !pinned.applies(determinism));
        remaining.map(|(word, _)| *word).collect()
    }

    /// Returns the reasons that remain in a run that has ended. `determinism` contains the measures for the run.
    /// `observed` contains the observations of a deterministic run, which show whether the replacement of the clocks
    /// worked. `streams` contains the outputs.
    pub(crate) fn of_run<'a>(
        &self,
        determinism: Option<Determinism>,
        observed: Option<&Observed>,
        streams: impl IntoIterator<Item = &'a [u8]>,
    ) -> BTreeSet<Reason> {
        let determinism = determinism.map(|it| it.confirmed(observed));
        let mut words = self.before_run(determinism);
        if let Some(Observed { started: Some(started), native }) = observed {
            // If the run started no thread or process, the scheduler of the kernel makes no choices.
            if *started == 0 {
                words.remove(&Reason::Threads);
            } else {
                words.insert(Reason::Threads);
            }
            let is_known = |name: &String| {
                LIBRARIES.contains(&name.as_str()) || NATIVE.contains(&name.as_str())
            };
            if !native.iter().all(is_known) {
                words.insert(Reason::Unknown);
            }
        }
        if streams.into_iter().any(has_address) && !ByAddresses.applies(determinism) {
            words.insert(Reason::Memory);
        }
        words
    }
}

/// Returns whether an output contains the address of an object, as in `<object object at 0x7f…>`.
fn has_address(output: &[u8]) -> bool {
    const ADDRESS: &[u8] = b" at 0x";
    output.windows(ADDRESS.len()).any(|window| window == ADDRESS)
}

/// Returns the names that receipts use for the given reasons.
pub(crate) fn as_texts(words: &BTreeSet<Reason>) -> Vec<Cow<'static, str>> {
    words.iter().map(|word| Cow::Borrowed(word.as_str())).collect()
}

fn top(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

impl<'a> Names<'a> {
    pub(crate) fn of(names: &'a ScriptNames) -> Self {
        Self { imports: &names.imports, uses: &names.uses }
    }
}

impl Names<'_> {
    fn all(&self) -> impl Iterator<Item = &str> {
        self.imports.iter().chain(self.uses).map(String::as_str)
    }

    fn have(&self, uses: Uses, source: &str) -> bool {
        let words = str::split_ascii_whitespace;
        match uses {
            Paths(paths) => words(paths).any(|path| self.all().any(|name| is_below(name, path))),
            Members { libraries, names } => {
                self.import(libraries)
                    && self.members().any(|member| words(names).any(|name| name == member))
            }
            Words { libraries, starts } => {
                self.import(libraries)
                    && self
                        .members()
                        .any(|member| words(starts).any(|start| has_word(member, start)))
            }
            Texts { libraries, texts } => {
                self.import(libraries) && words(texts).any(|text| source.contains(text))
            }
            Keyword { libraries, keyword, but } => {
                self.import(libraries)
                    && self.members().any(|member| {
                        member.split_once('=').is_some_and(|(name, of)| {
                            name == keyword && words(but).all(|but| but != of)
                        })
                    })
            }
            Both(ones, others) => {
                self.have(Paths(ones), source) && self.have(Paths(others), source)
            }
        }
    }

    fn import(&self, libraries: &str) -> bool {
        let mut libraries = libraries.split_ascii_whitespace();
        libraries.any(|library| self.imports.iter().any(|import| top(import) == library))
    }

    /// Returns the components of all names, without the first component of each name. The first component is a module,
    /// or empty.
    fn members(&self) -> impl Iterator<Item = &str> {
        self.all().flat_map(|name| name.split('.').skip(1))
    }
}

/// Returns whether a name is the module or object `path`, or one of its members.
fn is_below(name: &str, path: &str) -> bool {
    let is_at = |name: &str| {
        name.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    if is_at(name) {
        return true;
    }
    // A name that begins with a dot belongs to an unknown object and not to a module, so skip it.
    let is_held = HELD.contains(&top(path)) && !name.starts_with('.');
    is_held
        && name.match_indices('.').any(|(dot, _)| {
            name.get(dot + 1..).is_some_and(|below| is_at(below.trim_start_matches('_')))
        })
}

/// Returns whether a word in `name` begins with `start`. A word begins with a capital letter, or after a character that
/// is not a lower-case letter.
fn has_word(name: &str, start: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    lower.match_indices(start).any(|(at, _)| {
        let is_capital = name.as_bytes().get(at).is_some_and(u8::is_ascii_uppercase);
        let before = at.checked_sub(1).and_then(|at| name.as_bytes().get(at));
        is_capital || !before.is_some_and(u8::is_ascii_lowercase)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::safety;

    /// Returns the measures of a deterministic run. Each parameter enables one measure.
    fn measures(fixes_addresses: bool, has_clock: bool, has_own_tree: bool) -> Determinism {
        let clock = has_clock.then_some(crate::config::RUN_START);
        Determinism { fixes_addresses, clock, has_own_tree }
    }

    fn found(source: &str, determinism: Option<Determinism>) -> String {
        let analysis = safety::analyze(source).unwrap();
        let names = Names { imports: &analysis.imports, uses: &analysis.uses };
        as_texts(&Differences::of(Some(names), source).before_run(determinism)).join(" ")
    }

    /// Test cases: a script, the reasons why its runs may differ, and the reasons that remain in a deterministic run
    /// with all measures.
    const CASES: &[(&str, &str, &str)] = &[
        ("import math\nprint(math.pi, {'a', 'b'}, hash('a'))", "", ""),
        ("from decimal import *\nprint(Decimal(2).sqrt())", "", ""),
        ("import sympy\nx = sympy.Symbol('x')\nprint(sympy.integrate(x, x))", "", ""),
        ("import numpy as np\nprint(np.arange(3).sum(), np.linalg.eigvals(np.eye(2)))", "", ""),
        ("from z3 import *\nprint(Solver().check())", "", ""),
        ("def operand(): return 1\nimport sympy\nprint(operand(), sympy.brand)", "", ""),
        ("import time", "time", ""),
        ("import timeit\ntimeit.timeit('1')", "time", ""),
        ("import calendar\nprint(calendar.datetime.datetime.now())", "time", ""),
        ("import http.cookiejar\nprint(http.cookiejar.time2isoz())", "time", ""),
        ("import numpy as np\nprint(np.random.rand())", "random", ""),
        ("import numpy as np\nprint(np.random.default_rng().random())", "random", ""),
        ("import numpy as np\nprint(getattr(np, 'ran' + 'dom').rand())", "random", ""),
        ("from numpy.random import *\nprint(rand())", "random", ""),
        ("from numpy import random as r\nprint(r.rand())", "random", ""),
        ("import numpy as np\nprint(np.datetime64('now', 'us'))", "time", ""),
        ("import random\nprint(random.random())", "random", ""),
        ("import random\nprint(random.SystemRandom().random())", "random secrets", ""),
        ("from random import SystemRandom as S\nprint(S().random())", "random secrets", ""),
        ("from statistics import random as r\nprint(r.random())", "random", ""),
        ("import statistics\nprint(statistics.NormalDist().samples(2))", "random", ""),
        ("import statistics\nprint(statistics.mean([1, 2]))", "", ""),
        ("import sympy\nprint(sympy.randMatrix(2, 2))", "random", ""),
        ("from sympy import *\nprint(randMatrix(2, 2))", "random", ""),
        ("import sympy\nprint(sympy.sympify('randMatrix(2, 2)'))", "random", ""),
        ("from sympy.stats import Normal, sample\nprint(sample(Normal('X', 0, 1)))", "random", ""),
        (
            "from sympy.polys.specialpolys import random_poly\nrandom_poly(x, 3, -9, 9)",
            "random",
            "",
        ),
        ("import mpmath\nprint(mpmath.rand())", "random", ""),
        ("import networkx as nx\nprint(nx.gnp_random_graph(9, .5).edges)", "random", ""),
        ("import networkx as nx\nprint(nx.spring_layout(nx.path_graph(3)))", "random", ""),
        ("import networkx as nx\nprint(nx.shortest_path(nx.path_graph(3), 0, 2))", "", ""),
        ("from scipy import stats\nprint(stats.norm.rvs())", "random", ""),
        ("from scipy.stats import norm\nd = norm(0, 1)\nprint(d.rvs())", "random", ""),
        ("from scipy.stats import norm\nprint(norm.cdf(1))", "", ""),
        ("import pandas as pd\nprint(pd.Series(range(9)).sample(3))", "random", ""),
        ("import pandas as pd\nprint(pd.Timestamp.now())", "time", ""),
        ("import pandas as pd\nprint(pd.DataFrame({'a': [1]}).sum())", "", ""),
        ("import email.utils\nprint(email.utils.make_msgid())", "time random files", ""),
        ("import os\nprint(os.urandom(4))", "secrets files", ""),
        ("import os\nprint(os.getloadavg())", "time files", ""),
        ("import sqlite3\nsqlite3.connect(':memory:')", "time random", ""),
        ("import uuid\nprint(uuid.uuid4())", "uuid", ""),
        ("import resource\nresource.getrusage(0)", "time", "time"),
        ("import signal\nsignal.alarm(1)", "time", "time"),
        ("import concurrent.futures", "threads", "threads"),
        ("import asyncio\nasyncio.run(f())", "threads", ""),
        ("import asyncio\nasyncio.to_thread(f)", "threads", "threads"),
        ("import os\nos.fork()", "threads files", "threads"),
        ("import os\nprint(os.path.join('a', 'b'), os.getpid())", "files", ""),
        ("import os\nprint(os.stat('.').st_mtime)", "files", "files"),
        ("import pathlib\nprint(pathlib.Path('.').stat())", "files", "files"),
        ("import os\nprint(os.sched_getaffinity(0))", "files", "files"),
        ("import io, zipfile\nzipfile.ZipFile(io.BytesIO(), 'w').writestr('a', 'b')", "time", ""),
        ("import zipfile\nz.write('a')", "time files", "files"),
        ("print(id(print))", "memory", ""),
        ("class A: pass\nprint({A(), A()})", "memory", ""),
        ("print(hash(object()))", "memory", ""),
        ("class A: pass\nprint(A.__name__)", "", ""),
        ("def f(): pass\nprint({f, len})", "memory", ""),
        ("print({lambda: 1, lambda: 2})", "memory", ""),
        ("def f(): pass\nprint({g for g in [f, f]})", "memory", ""),
        ("def f(): pass\nprint(set([f]), {1, 'a'})", "memory", ""),
        ("def f(): pass\ns = set()\ns.add(f)", "memory", ""),
        ("print({None, 'a'})", "memory", ""),
        ("def f(): return {1, 2}\nprint(f(), {len(x) for x in 'ab'}, set('ab'))", "", ""),
        ("print(hash(print))", "memory", ""),
        ("print(sorted([print, len], key=hash))", "memory", ""),
        ("print(hash((1, 'a')), hash(2), hash(f'a{1}'))", "", ""),
        ("def f(): pass\nprint(repr(f)[-8:])", "memory", ""),
        ("class A: pass\nprint(str(A()).upper())", "memory", ""),
        ("class A: pass\nprint(f'{A()}'[-4:])", "memory", ""),
        ("class A:\n    def __repr__(self): return 'A'\nprint(str(A()).upper(), f'{A()}')", "", ""),
        ("def f(x): return str(x).upper()\nprint(f(1))", "", ""),
        ("import numpy as np\nprint(np.empty(3))", "memory", "memory"),
        ("from numpy import *\nprint(empty(3))", "memory", "memory"),
        ("from numpy import empty_like as e\nprint(e([1]))", "memory", "memory"),
        ("import numpy as np\nprint(np.ndarray((2,)))", "memory", "memory"),
        ("import numpy as np\ndef f(x: np.ndarray): return isinstance(x, np.ndarray)", "", ""),
        ("import numpy as np\nprint(np.add([1], [2], where=[False]))", "memory", "memory"),
        ("import numpy as np\nnp.add(a, b, where=m, out=c)\nprint(a.sum(where=m))", "", ""),
        ("import numpy as np\nprint(np.zeros(1).ctypes.data)", "memory", ""),
        ("import numpy as np\nprint(np.zeros(1).__array_interface__)", "memory", ""),
        ("import pandas as pd\nimport numpy as np\nprint(pd.DataFrame().empty)", "", ""),
        ("import sympy\nprint(sympy.Dummy('x'))", "random", ""),
        ("from z3 import *\ns = Solver()\ns.set('timeout', 5)\nprint(s.check())", "time", "time"),
        ("from z3 import *\ns = Solver()\nprint(s.check(), s.statistics())", "time", "time"),
        ("import weakref", "memory", "memory"),
        ("from dateutil import parser\nprint(parser.parse('10:36'))", "time", ""),
        ("from dateutil.relativedelta import relativedelta\nprint(relativedelta(days=1))", "", ""),
        ("import pandas as pd, io\npd.DataFrame().to_excel(io.BytesIO())", "time", ""),
        ("import pandas as pd\nprint(pd.DataFrame().style.to_html())", "uuid", ""),
        ("import networkx as nx\nprint(*nx.generate_gexf(nx.path_graph(2)))", "time", ""),
        ("import sympy\nprint(sympy.timed(f))", "time", ""),
        ("from scipy.optimize import milp\nmilp(c, options={'time_limit': 2})", "time", ""),
        ("from z3 import *\nTryFor(Tactic('smt'), 5)", "time", "time"),
        ("from z3 import *\nset_param('parallel.enable', True)", "time", "time"),
        ("import faulthandler\nfaulthandler.dump_traceback()", "time memory", "time"),
        ("import array\nprint(array.array('i', [1]).buffer_info())", "memory", ""),
        ("print(object().__hash__())", "memory", ""),
        ("class A: pass\nprint(A().__repr__()[-6:])", "memory", ""),
        ("from numpy.lib.stride_tricks import as_strided\nas_strided(x, (9,))", "memory", "memory"),
        ("import holidays", "unknown", "unknown"),
        ("import qwed_new.core", "unknown", "unknown"),
        ("import math\nname = input()\nprint(getattr(math, name))", "unknown", "unknown"),
        ("exec(input())", "unknown", "unknown"),
        ("def f(:", "unknown", "unknown"),
    ];

    #[test]
    fn every_source_of_differences_is_named() {
        for (source, without, with) in CASES {
            assert_eq!(found(source, None), *without, "{source}");
            assert_eq!(
                found(source, Some(measures(true, true, true))),
                *with,
                "deterministic: {source}"
            );
        }
        assert_eq!(Differences::of(None, "").before_run(None), BTreeSet::from([Reason::Unknown]));
    }

    #[test]
    fn a_measure_that_is_missing_is_not_counted_on() {
        for (source, by_addresses, by_clock, by_tree) in [
            ("print(id(print))", "memory", "", ""),
            ("import time\ntime.time()", "", "time", ""),
            ("import uuid\nuuid.uuid4()", "", "uuid", ""),
            ("import uuid\nuuid.uuid1()", "", "uuid", "uuid"),
            ("import secrets\nsecrets.token_hex()", "", "secrets", ""),
            ("import sqlite3", "", "time random", ""),
            ("import os\nos.getpid()", "", "", "files"),
            ("import random\nrandom.random()", "", "", ""),
        ] {
            for (missing, expected) in [
                (measures(false, true, true), by_addresses),
                (measures(true, false, true), by_clock),
                (measures(true, true, false), by_tree),
            ] {
                assert_eq!(found(source, Some(missing)), expected, "{source}: {missing:?}");
            }
        }
    }

    #[test]
    fn an_address_is_seen_in_the_output() {
        let fixed = |fixes_addresses| Some(measures(fixes_addresses, true, true));
        let output = b"<object object at 0x7f2a>";
        for (output, determinism, expected) in [
            (&output[..], None, Some(Reason::Memory)),
            (output, fixed(false), Some(Reason::Memory)),
            (output, fixed(true), None),
            (b"look at 1x", None, None),
            (b"", None, None),
        ] {
            let found = Differences::default().of_run(determinism, None, [output]);
            assert_eq!(found.first(), expected.as_ref(), "{output:?} {determinism:?}");
        }
    }

    #[test]
    fn a_run_that_has_ended_shows_threads_and_native_code() {
        let run = |source: &str, started, native: &[&str]| {
            let analysis = safety::analyze(source).unwrap();
            let names = Names { imports: &analysis.imports, uses: &analysis.uses };
            let native = native.iter().map(ToString::to_string).collect();
            let observed = Some(Observed { started, native });
            let measures = Some(measures(true, true, true));
            as_texts(&Differences::of(Some(names), source).of_run(measures, observed.as_ref(), []))
                .join(" ")
        };
        let threads = "import threading\nlock = threading.Lock()";
        for (source, started, native, expected) in [
            (threads, Some(0), &[][..], ""),
            (threads, Some(2), &[], "threads"),
            (threads, None, &[], "threads"),
            ("import numpy", Some(1), &["numpy"], "threads"),
            ("import numpy", Some(0), &["numpy", "PIL"], ""),
            ("import numpy", Some(0), &["numpy", "numba"], "unknown"),
        ] {
            assert_eq!(run(source, started, native), expected, "{source} {started:?} {native:?}");
        }
    }

    #[test]
    fn every_row_has_a_reason_and_names() {
        for (uses, _, _, why) in ROWS {
            let lists = match *uses {
                Paths(paths) => vec![paths],
                Members { libraries, names: list }
                | Words { libraries, starts: list }
                | Texts { libraries, texts: list } => vec![libraries, list],
                Keyword { libraries, keyword, but } => vec![libraries, keyword, but],
                Both(ones, others) => vec![ones, others],
            };
            assert!(!why.is_empty() && lists.iter().all(|list| !list.is_empty()), "{uses:?}");
            if let Members { libraries, .. }
            | Words { libraries, .. }
            | Texts { libraries, .. }
            | Keyword { libraries, .. } = uses
            {
                for library in libraries.split_ascii_whitespace() {
                    let is_known = LIBRARIES.contains(&library) || is_in_standard_library(library);
                    assert!(is_known, "{library}");
                }
            }
        }
    }
}
