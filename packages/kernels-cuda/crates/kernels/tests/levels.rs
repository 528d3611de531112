//! The levels by name, and which of them this machine has.

use palimpsest_kernels::{Level, kernels, levels};

#[test]
fn every_level_is_found_by_its_name_and_no_name_twice() {
    for level in Level::ALL.iter().copied() {
        assert_eq!(Level::from_name(level.name()), Some(level));
        if let Some(kernels) = kernels(level) {
            assert_eq!(kernels.level(), level);
        }
    }
    assert_eq!(Level::from_name("fast"), None);
}

/// `PALIMPSEST_LEVELS_EXPECTED`, set where the processor is known, names the levels that must be there beside the two in plain Rust.
#[test]
fn this_machine_has_the_levels_of_its_instructions() {
    let found: Vec<_> = levels().iter().map(|kernels| kernels.level().name()).collect();
    assert_eq!(found[..2], ["reference", "scalar"]);
    if let Ok(expected) = std::env::var("PALIMPSEST_LEVELS_EXPECTED") {
        let expected: Vec<_> = expected.split(',').filter(|name| !name.is_empty()).collect();
        assert_eq!(found[2..], expected);
    }
    #[cfg(target_arch = "x86_64")]
    {
        let (avx2, vnni) = (is_x86_feature_detected!("avx2"), is_x86_feature_detected!("avxvnni"));
        assert_eq!(found.contains(&"avx-vnni"), avx2 && vnni, "AVX-VNNI is a level where the processor has it");
        assert!(avx2 || !found.contains(&"avx512"), "a faster level comes after a slower one");
    }
}
