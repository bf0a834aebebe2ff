#!/usr/bin/env bash
# Runs all tests. Finds redis-server or installs it (Debian, Ubuntu); the tests start and stop their own servers.
set -euo pipefail
cd "$(dirname "$0")"

if ! command -v redis-server >/dev/null || ! command -v redis-cli >/dev/null; then
  if ! command -v apt-get >/dev/null; then
    echo "the tests need redis-server and redis-cli: install them and run this again" >&2
    exit 1
  fi
  as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    as_root=(sudo)
  fi
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq redis-server >/dev/null
fi

# The engine under a model checker, in a build of its own.
RUSTFLAGS="--cfg shuttle ${RUSTFLAGS:-}" \
  cargo test --release --locked -p guard-core --test model --target-dir target/shuttle

cargo test --workspace --locked "$@"
