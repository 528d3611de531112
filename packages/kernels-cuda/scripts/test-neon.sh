#!/usr/bin/env bash
# Tests the NEON level on another machine: compiled for 64-bit Arm and run by qemu's user emulation, on three processors (dotprod with
# i8mm, dotprod alone, neither). Takes some minutes. What is missing is named, and the test then skipped:
#
#   rustup target add aarch64-unknown-linux-gnu
#   apt-get install qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross     (Debian, Ubuntu)
#
# `test-neon.sh check` only type-checks the crates for the target, for which the first line is enough.
set -euo pipefail
cd "$(dirname "$0")/../../.."
TARGET=aarch64-unknown-linux-gnu

skip() {
  echo "NEON skipped: $1"
  exit 0
}

[ -d "$(rustc --print sysroot)/lib/rustlib/$TARGET/lib" ] || skip "the target is not installed (rustup target add $TARGET)"
if [ "${1:-}" = check ]; then
  exec cargo check --locked --target "$TARGET" --tests -p palimpsest-kernels -p palimpsest-model -p palimpsest-replay
fi
command -v aarch64-linux-gnu-gcc >/dev/null || skip "there is no linker aarch64-linux-gnu-gcc"
command -v qemu-aarch64 >/dev/null || skip "there is no qemu-aarch64"
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc

# run PROCESSOR LEVELS TEST…: LEVELS is what the processor must have beside reference and scalar.
run() {
  echo "── $1"
  CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu -cpu $1" PALIMPSEST_LEVELS_EXPECTED="$2" \
    cargo test --locked --target "$TARGET" -p palimpsest-kernels "${@:3}"
}

run max neon
run neoverse-n1 neon --test levels --test packed_products
run cortex-a72 "" --test levels
