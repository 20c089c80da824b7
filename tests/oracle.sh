#!/bin/sh
# Checks every file and prompt of a folder of tiny models against its references: tests/oracle.py has the bars.
# usage: tests/oracle.sh DIR [options of oracle.py]
# Needs cargo and python3; numpy is installed below target/ where it is missing.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
target=${CARGO_TARGET_DIR:-$root/target}
python=python3
if ! python3 -c "import numpy" 2>/dev/null; then
    venv=$target/oracle-venv
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
    "$venv/bin/python" -c "import numpy" 2>/dev/null || "$venv/bin/pip" -q install numpy
    python=$venv/bin/python
fi
cargo build --release --manifest-path "$root/Cargo.toml" --bin pantheon
exec "$python" "$here/oracle.py" --pantheon "$target/release/pantheon" "$@"
