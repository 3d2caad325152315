#!/usr/bin/env bash
# collect.sh DESTINATION PREFIX PROGRAM…: copies programs to DESTINATION/PREFIX/bin and every library they load, with
# the loader, to DESTINATION/PREFIX/lib. With prefix /usr the loader also gets the path that the programs name, so that
# they start by themselves in an otherwise empty image.
set -euo pipefail
destination=$1 prefix=$2
shift 2
mkdir -p "$destination$prefix/bin" "$destination$prefix/lib"
for program in "$@"; do
  install -s -m 755 "$program" "$destination$prefix/bin/"
  ldd "$program" | awk '/=> \//{ print $3 } /^\t\/.*ld-linux/{ print $1 }' |
    while read -r library; do cp -L "$library" "$destination$prefix/lib/"; done
done
if [ "$prefix" = /usr ]; then
  # The C library looks in /lib/x86_64-linux-gnu without any configuration file.
  mkdir -p "$destination/lib64" "$destination/lib" "$destination/etc" "$destination/tmp"
  ln -s /usr/lib/ld-linux-x86-64.so.2 "$destination/lib64/ld-linux-x86-64.so.2"
  ln -s /usr/lib "$destination/lib/x86_64-linux-gnu"
  chmod 1777 "$destination/tmp"
  printf 'pawl:x:65532:65532::/:/\nworker:x:1000:1000::/:/\n' >"$destination/etc/passwd"
  printf 'pawl:x:65532:\nworker:x:1000:\n' >"$destination/etc/group"
fi
