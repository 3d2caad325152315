#!/usr/bin/env bash
# packages.sh LIST…: installs the Debian packages of the lists that are missing, and nothing when none is.
# A line is a package name, "name/backports" for the release's backports suite, or a comment.
set -euo pipefail

missing=()
from_backports=()
for package in $(cat "$@" | sed 's/#.*//'); do
  name=${package%/backports}
  # "ok installed" alone: a removed package whose configuration stayed is missing.
  if ! dpkg-query -W -f='${Status}' "$name" 2>/dev/null | grep -q 'ok installed'; then
    missing+=("$name")
    [ "$package" = "$name" ] || from_backports+=("$name")
  elif [ "$package" != "$name" ] && ! dpkg-query -W -f='${Version}' "$name" | grep -q bpo; then
    missing+=("$name")
    from_backports+=("$name")
  fi
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || {
    echo "missing Debian packages: ${missing[*]}; run this as root once: $0 $*" >&2
    exit 1
  }
  as_root=(sudo)
fi
. /etc/os-release
if [ "${VERSION_CODENAME:-}" != bookworm ]; then
  echo "this script knows Debian bookworm only; install these yourself: ${missing[*]}" >&2
  exit 1
fi

# The backports suite lives on the mirror that already serves the release, and is signed by the same keys. Known from the
# configured sources alone: a fresh image has no lists yet.
if [ ${#from_backports[@]} -gt 0 ]; then
  sources=$(apt-get indextargets --no-release-info --format '$(RELEASE) $(SITE) $(SIGNED_BY)' 'Created-By: Packages')
  if ! grep -q "^$VERSION_CODENAME-backports " <<<"$sources"; then
    read -r _ mirror keys <<<"$(grep -m1 "^$VERSION_CODENAME " <<<"$sources" || true)"
    case "${keys:-}" in '$('*) keys= ;; esac  # no such option
    [ -n "${mirror:-}" ] || { echo "no apt source for $VERSION_CODENAME is configured" >&2; exit 1; }
    echo "deb ${keys:+[signed-by=$keys] }$mirror $VERSION_CODENAME-backports main" |
      "${as_root[@]}" tee /etc/apt/sources.list.d/pawl-backports.list >/dev/null
  fi
fi
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get -qq update
for i in "${!missing[@]}"; do
  for name in "${from_backports[@]}"; do
    [ "${missing[$i]}" != "$name" ] || missing[i]="$name/$VERSION_CODENAME-backports"
  done
done
echo "installing: ${missing[*]}"
"${as_root[@]}" apt-get -qq install -y --no-install-recommends "${missing[@]}" >/dev/null
