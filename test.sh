#!/usr/bin/env bash
# Runs all tests. Finds the servers that they need or installs them (Debian, Ubuntu); the tests start and stop their own.
set -euo pipefail
cd "$(dirname "$0")"

missing=()
if ! command -v redis-server >/dev/null || ! command -v redis-cli >/dev/null; then
  missing+=(redis-server)
fi
if ! command -v psql >/dev/null || ! compgen -G "/usr/lib/postgresql/*/bin/initdb" >/dev/null; then
  missing+=(postgresql)
fi
if [ ! -x /usr/sbin/pgbouncer ]; then
  missing+=(pgbouncer)
fi
if ! command -v mariadb >/dev/null || ! command -v mariadb-install-db >/dev/null || [ ! -x /usr/sbin/mariadbd ]; then
  missing+=(mariadb-server)
fi
if [ ${#missing[@]} -gt 0 ]; then
  if ! command -v apt-get >/dev/null; then
    echo "the tests need ${missing[*]}: install them and run this again" >&2
    exit 1
  fi
  as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    as_root=(sudo)
  fi
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}" >/dev/null
fi

# The engine under a model checker, in a build of its own.
RUSTFLAGS="--cfg shuttle ${RUSTFLAGS:-}" \
  cargo test --release --locked -p guard-core --test model --target-dir target/shuttle

cargo test --workspace --locked "$@"
