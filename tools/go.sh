#!/usr/bin/env bash
# Makes sure that a Go toolchain is there for the test cluster's tools. Debian's own is old, so the one of backports is taken;
# it fetches the version that a go.mod asks for through the module proxy.
set -euo pipefail
# Older ones cannot read our go.mod, nor fetch a newer toolchain.
if command -v go >/dev/null; then
  version=$(go env GOVERSION)
  if [ "$(printf '%s\n' go1.21 "${version%%[ -]*}" | sort -V | head -1)" = go1.21 ]; then exit 0; fi
fi
list=$(mktemp)
echo golang-go/backports >"$list"
"$(dirname "$0")"/packages.sh "$list"
rm -f "$list"
