//! Finds calls that make the result of a script differ between runs: unseeded random numbers, and the wall clock.

use super::differences::Pinned;
use crate::executor::Determinism;

/// Functions that return different values in each run. Names in a string are separated by spaces.
struct Source {
    /// The qualified names of the functions. A name that ends with a dot stands for all members of a module.
    calls: &'static str,
    /// Functions and keywords that make the calls return the same values in each run.
    unless: &'static str,
    /// How a deterministic run makes the calls return the same values in each run.
    pinned: Pinned,
    #[cfg_attr(not(test), expect(dead_code, reason = "for the reader, and for a test"))]
    why: &'static str,
}

/// All functions that make the result of a script differ between runs if the script calls them. An import alone makes
/// no difference. `time.perf_counter` and `time.monotonic` are not in the table, because scripts use them to measure
/// durations.
#[rustfmt::skip]
const SOURCES: [Source; 7] = [
    Source {
        calls: "time.time time.time_ns time.localtime() time.gmtime() time.ctime() time.asctime() datetime.datetime.now \
                datetime.datetime.today datetime.datetime.utcnow datetime.date.today pandas.Timestamp.now \
                pandas.Timestamp.today pandas.Timestamp.utcnow",
        unless: "", pinned: Pinned::ByClock, why: "they read the wall clock",
    },
    Source {
        calls: "os.urandom os.getrandom secrets. random.SystemRandom uuid.uuid1 uuid.uuid4",
        unless: "", pinned: Pinned::ByClock, why: "they take random bits of the machine",
    },
    Source {
        calls: "random.random random.randint random.randrange random.uniform random.choice random.choices random.sample \
                random.shuffle random.gauss random.normalvariate random.getrandbits random.randbytes \
                random.betavariate random.binomialvariate random.expovariate random.gammavariate \
                random.lognormvariate random.paretovariate random.triangular random.vonmisesvariate \
                random.weibullvariate",
        unless: "random.seed", pinned: Pinned::BySeeds, why: "they draw from the module's generator",
    },
    Source {
        calls: "random.Random() random.seed() numpy.random.default_rng() numpy.random.RandomState() \
                numpy.random.SeedSequence() numpy.random.seed()",
        unless: "", pinned: Pinned::BySeeds, why: "generators without a seed",
    },
    Source {
        calls: "numpy.random.rand numpy.random.randn numpy.random.randint numpy.random.random \
                numpy.random.random_sample numpy.random.ranf numpy.random.sample numpy.random.choice \
                numpy.random.bytes numpy.random.shuffle numpy.random.permutation numpy.random.uniform \
                numpy.random.normal numpy.random.standard_normal numpy.random.binomial numpy.random.poisson \
                numpy.random.exponential numpy.random.beta numpy.random.gamma numpy.random.geometric \
                numpy.random.multivariate_normal numpy.random.dirichlet numpy.random.multinomial \
                numpy.random.lognormal numpy.random.triangular numpy.random.chisquare numpy.random.laplace",
        unless: "numpy.random.seed", pinned: Pinned::BySeeds, why: "they draw from NumPy's global generator",
    },
    Source {
        calls: "sympy.core.random. sympy.randMatrix sympy.stats.sample sympy.stats.sample_iter",
        unless: "random.seed .seed=randMatrix .seed=sample", pinned: Pinned::BySeeds, why: "they draw from random",
    },
    Source {
        calls: ".rvs",
        unless: "numpy.random.seed .random_state=rvs", pinned: Pinned::BySeeds,
        why: "SciPy's distributions draw from NumPy's global generator",
    },
];

/// Returns whether a script calls a function with results that differ between runs. `uses` are the names that the
/// script uses ([`Analysis::uses`](crate::safety::Analysis::uses)).
pub(super) fn differ(uses: &[String], determinism: Option<Determinism>) -> bool {
    let is_used = |call: &str| {
        uses.iter()
            .any(|name| if call.ends_with('.') { name.starts_with(call) } else { name == call })
    };
    SOURCES.iter().any(|source| {
        !source.pinned.applies(determinism)
            && source.calls.split_ascii_whitespace().any(is_used)
            && !source.unless.split_ascii_whitespace().any(is_used)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn differs(source: &str) -> bool {
        differ(&crate::safety::analyze(source).unwrap().uses, None)
    }

    #[test]
    fn a_seed_of_the_machine_makes_no_result_the_same() {
        for source in [
            "import random\nrandom.seed()\nrandom.random()",
            "import numpy as np\nnp.random.seed()\nnp.random.rand(3)",
        ] {
            assert!(differs(source), "{source}");
        }
    }

    #[test]
    fn a_seed_makes_the_result_the_same() {
        for (varying, fixed) in [
            (
                "import random\nprint(random.random())",
                "import random\nrandom.seed(1)\nprint(random.random())",
            ),
            (
                "import random\nr = random.Random()",
                "import random\nr = random.Random(7)\nr.random()",
            ),
            (
                "from random import Random\nr = Random()",
                "from random import Random\nr = Random(x=7)",
            ),
            (
                "import numpy as np\nr = np.random.default_rng()",
                "import numpy as np\nr = np.random.default_rng(7)\nr.normal()",
            ),
            (
                "import numpy as np\nnp.random.rand(3)",
                "import numpy as np\nnp.random.seed(1)\nnp.random.rand(3)",
            ),
            (
                "from scipy import stats\nstats.norm.rvs(size=3)",
                "from scipy import stats\nstats.norm.rvs(size=3, random_state=1)",
            ),
        ] {
            assert!(differs(varying) && !differs(fixed), "{varying}");
        }
    }

    #[test]
    fn clocks_and_secrets_differ_and_stopwatches_do_not() {
        for varying in [
            "import time\ntime.time()",
            "import time\ntime.localtime()",
            "from datetime import date\ndate.today()",
            "import datetime as dt\ndt.datetime.now()",
            "import secrets\nsecrets.token_hex(8)",
            "import uuid\nuuid.uuid4()",
        ] {
            assert!(differs(varying), "{varying}");
        }
        for fixed in [
            "import time\nt = time.perf_counter()",
            "import time\nt = time.localtime(0)",
            "import random, secrets, uuid, time, datetime",
            "import uuid\nuuid.uuid5(uuid.NAMESPACE_DNS, 'a')",
            "from datetime import date\ndate(2026, 1, 1)",
        ] {
            assert!(!differs(fixed), "{fixed}");
        }
    }

    #[test]
    fn a_deterministic_run_sets_seeds_and_if_possible_the_clock() {
        let uses = |source: &str| crate::safety::analyze(source).unwrap().uses;
        let of = |clock| Some(Determinism { fixes_addresses: true, clock, has_own_tree: true });
        let (seeds, clock) = (of(None), of(Some(crate::config::RUN_START)));
        for (source, varies) in [
            ("import random\nrandom.random()", [true, false, false]),
            ("import time\ntime.time()", [true, true, false]),
            ("import secrets\nsecrets.token_hex(8)", [true, true, false]),
        ] {
            let found = [None, seeds, clock].map(|it| differ(&uses(source), it));
            assert_eq!(found, varies, "{source}");
        }
    }

    #[test]
    fn every_source_has_a_reason() {
        assert!(SOURCES.iter().all(|source| !source.why.is_empty() && !source.calls.is_empty()));
    }
}
