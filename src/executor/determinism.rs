//! Makes runs of a script reproducible, as far as possible.
//!
//! Random number generators without a seed get a seed that is derived from the script (`python/numbers.py`). Memory
//! addresses are the same in each run if the operating system allows that. Numerical libraries use compute kernels that
//! every processor supports. Time, threads and secrets are never changed.

use crate::config::KernelLacks;
use crate::sandbox::can_fix_addresses;

/// The measures for reproducible runs that are available on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Determinism {
    /// Whether memory addresses are the same in each run.
    pub(crate) fixes_addresses: bool,
}

impl Determinism {
    pub(super) fn here(lacks: KernelLacks) -> Self {
        let fixes_addresses = !lacks.fixed_addresses && can_fix_addresses();
        if !fixes_addresses {
            tracing::warn!(
                "memory addresses differ between runs, because the kernel does not allow fixed \
                 addresses"
            );
        }
        Self { fixes_addresses }
    }
}

/// An environment variable that keeps a numerical library from choosing its compute kernels by the processor.
struct Pinned {
    name: &'static str,
    value: &'static str,
    #[cfg_attr(not(test), expect(dead_code, reason = "for the reader, and for a test"))]
    why: &'static str,
}

/// The processor features that `NumPy` is kept from using: all that its loops can use beyond the baseline of its build.
/// `NumPy` ignores names that its build does not know.
const VECTORS: &str = "AVX F16C FMA3 AVX2 AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX512_SPR \
                       X86_V3 X86_V4 ASIMDHP ASIMDDP ASIMDFHM SVE";

/// The variables that make numerical libraries choose the same compute kernels on every processor. Another kernel would
/// add numbers in another order, and round differently.
const PINNED: [Pinned; 4] = [
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
];

/// Returns the variables that make numerical libraries compute the same on every machine of an architecture.
pub(super) fn pinned_kernels() -> impl Iterator<Item = (String, String)> {
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
            pinned_kernels().map(|(name, _)| name).collect();
        assert_eq!(names.len(), PINNED.len());
    }
}
