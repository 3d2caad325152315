#!/usr/bin/env bash
# Makes sure that a Go toolchain is there for the test cluster's tools. Debian's own is old, so the one of backports is taken;
# it fetches the version that a go.mod asks for through the module proxy.
set -euo pipefail
command -v go >/dev/null && exit 0
list=$(mktemp)
echo golang-go/backports >"$list"
"$(dirname "$0")"/packages.sh "$list"
rm -f "$list"
