#!/usr/bin/env bash
# Prints the path of a large English text, fetching it once: the dictionary of the Debian package dict-gcide (about 40 MB,
# unpacked beside the other caches; nothing is installed).
set -euo pipefail
folder=${PAWL_CACHE:-$HOME/.cache/pawl}/text
text=$folder/gcide.txt
if [ ! -s "$text" ]; then
  mkdir -p "$folder"
  work=$(mktemp -d "$folder/fetch.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  cd "$work"
  apt-get -qq download dict-gcide >&2 || { apt-get -qq update >&2 && apt-get -qq download dict-gcide >&2; } || {
    echo "could not fetch the Debian package dict-gcide; give a text of your own: pawl run JOB --text FILE" >&2
    exit 1
  }
  dpkg -x dict-gcide_*.deb unpacked
  gzip -dc -S .dz unpacked/usr/share/dictd/gcide.dict.dz >text.part
  mv text.part "$text"
fi
echo "$text"
