//! Makes runs of a script reproducible, as far as possible.
//!
//! Random number generators without a seed get a seed that is derived from the script (`python/determinism.py`). Memory
//! addresses are the same in each run if the operating system allows that. Numerical libraries use compute kernels that
//! every processor supports. On Linux, a library of the sandbox replaces the kernel's clocks and random bits, also for
//! native code. There, all threads also share one processor.

use chrono::{DateTime, Utc};

use super::Observed;
use crate::config::KernelLacks;
use crate::sandbox::{Fixed, FixedClock, IS_SUPPORTED, Tier, can_fix_addresses};

/// The measures for reproducible runs that are available on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Determinism {
    /// Whether memory addresses are the same in each run.
    pub(crate) fixes_addresses: bool,
    /// The start time on the clocks of each run. `None` if clocks and random bits come from the machine.
    pub(crate) clock: Option<DateTime<Utc>>,
    /// Whether each run has its own file tree and its own PID namespace. Paths and PIDs are then the same in each run.
    pub(crate) has_own_tree: bool,
}

impl Determinism {
    /// Returns the measures for reproducible runs that are available on this machine. The clocks of each run start at
    /// the time `at`. Until a run ends, it is unknown whether its clocks were really replaced ([`Self::confirmed`]).
    pub(super) fn here(lacks: KernelLacks, tier: Tier, at: DateTime<Utc>) -> Self {
        let fixes_addresses = !lacks.fixed_addresses && can_fix_addresses();
        if !fixes_addresses {
            tracing::warn!(
                "memory addresses differ between runs, because the kernel does not allow fixed \
                 addresses"
            );
        }
        if !IS_SUPPORTED {
            tracing::warn!(
                "clocks and random bits differ between runs, because this system has no way to \
                 fix them"
            );
        }
        let clock = IS_SUPPORTED.then_some(at);
        Self { fixes_addresses, clock, has_own_tree: tier == Tier::T3 }
    }

    /// Returns the measures for reproducible runs on a machine that supports all of them.
    #[cfg(test)]
    pub(crate) fn complete() -> Self {
        let clock = Some(crate::config::RUN_START);
        Self { fixes_addresses: true, clock, has_own_tree: true }
    }

    /// Returns the measures that the observations of a run have confirmed. Sets `clock` to `None` if no observation
    /// shows that the run has loaded the library that replaces the clocks.
    pub(crate) fn confirmed(self, observed: Option<&Observed>) -> Self {
        let is_fixed = observed.is_some_and(|observed| observed.started.is_some());
        Self { clock: self.clock.filter(|_| is_fixed), ..self }
    }

    /// Returns the settings that give each run of the same script the same addresses, clocks and random bits. `sha256`
    /// is the SHA-256 of the script. For a fork server, `sha256` is zero, because each child receives the start time
    /// and the seeds of its run together with its script.
    pub(super) fn of_run(self, sha256: &[u8; 32]) -> Fixed {
        let seed = sha256.first_chunk().copied().map_or(0, u64::from_le_bytes);
        let start_ns = self.clock.and_then(|at| u64::try_from(at.timestamp_nanos_opt()?).ok());
        Fixed {
            addresses: self.fixes_addresses,
            clock: start_ns.map(|start_ns| FixedClock { start_ns, seed }),
        }
    }
}

/// An environment variable with a fixed value, with which programs compute the same results on every machine.
struct Pinned {
    name: &'static str,
    value: &'static str,
    #[cfg_attr(not(test), expect(dead_code, reason = "for the reader, and for a test"))]
    why: &'static str,
}

/// The processor features that `NumPy` must not use: all features beyond the baseline of its build. `NumPy` ignores the
/// names of features that its build does not support.
const VECTORS: &str = "AVX F16C FMA3 AVX2 AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR \
                       X86_V3 X86_V4 ASIMDHP ASIMDDP ASIMDFHM SVE";

/// The variables of deterministic runs. Most of them make numerical libraries choose the same compute kernels on every
/// processor. Another compute kernel would add numbers in another order, and round differently.
const PINNED: [Pinned; 5] = [
    Pinned {
        name: "OPENBLAS_CORETYPE",
        value: if cfg!(target_arch = "aarch64") { "ARMV8" } else { "Prescott" },
        why: "the oldest processor of the architecture that OpenBLAS knows",
    },
    Pinned {
        name: "MKL_CBWR",
        value: "COMPATIBLE",
        why: "MKL's conditional numerical reproducibility, on every processor",
    },
    Pinned {
        name: "NPY_DISABLE_CPU_FEATURES",
        value: VECTORS,
        why: "NumPy's loops for what it is built for",
    },
    Pinned {
        name: "GLIBC_TUNABLES",
        value: "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4",
        why: "exp, sin and the like without fused operations, which round once where others do twice",
    },
    Pinned { name: "TZ", value: "UTC", why: "the local time of every machine" },
];

/// Returns the environment variables with which programs compute the same results on every machine of an architecture.
pub(super) fn pinned_variables() -> impl Iterator<Item = (String, String)> {
    PINNED.iter().map(|pinned| (pinned.name.to_owned(), pinned.value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variable_has_a_reason_and_a_value_in_one_word_or_a_list() {
        for Pinned { name, value, why } in &PINNED {
            assert!(!why.is_empty() && !value.is_empty() && !value.contains("  "), "{name}");
        }
        let names: std::collections::BTreeSet<String> =
            pinned_variables().map(|(name, _)| name).collect();
        assert_eq!(names.len(), PINNED.len());
    }
}
