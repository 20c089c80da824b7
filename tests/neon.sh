#!/bin/sh
# Builds for aarch64 and runs under emulation the tests that compare instruction sets: kernels, block types,
# whole models. So NEON is tested where there is no such processor.
# usage: tests/neon.sh
# Needs cargo with rustup; on Debian and Ubuntu the cross linker and the emulator are installed where they are
# missing, elsewhere they must be there: aarch64-linux-gnu-gcc and qemu-aarch64-static (or qemu-aarch64).
set -eu
root=$(dirname "$(cd "$(dirname "$0")" && pwd)")
target=aarch64-unknown-linux-gnu

emulator() {
    command -v qemu-aarch64-static || command -v qemu-aarch64
}
if ! command -v aarch64-linux-gnu-gcc >/dev/null || ! emulator >/dev/null; then
    sudo=
    [ "$(id -u)" -eq 0 ] || sudo=sudo
    $sudo apt-get update -q
    $sudo apt-get install -q -y gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static
fi
cd "$root"
rustup target list --installed | grep -q "^$target\$" || rustup target add "$target"

export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="$(emulator) -cpu max -L /usr/aarch64-linux-gnu"
export CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc
# Without NEON there would be nothing to compare.
cargo run --release --target "$target" --bin pantheon -- doctor | grep "used .*neon"
cargo test --release --target "$target" --test kernels --test quant_dequant
# Whole models, on every set and number of threads; the rest of this suite takes five minutes here.
cargo test --release --target "$target" --test identity -- workers
