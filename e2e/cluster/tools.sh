#!/usr/bin/env bash
# Builds the Go programs of the test cluster into a cache outside the tree and prints
# their paths, one a line, in the order asked for:
#
#   tools.sh kubernetes coredns helm
#
# The folder of a tool is named by a hash of everything it is built from, so a warm call
# compiles nothing and an old checkout finds its own build. A tool is built under a
# temporary name and renamed when complete; a lock makes concurrent calls build once, and
# one at a time, because a link of Kubernetes takes 4 GiB.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tools=${PAWL_CACHE:-$HOME/.cache/pawl}/tools
mkdir -p "$tools"
export CGO_ENABLED=0 GOFLAGS=-buildvcs=false GOWORK=off

module_version() {  # MODULE_FOLDER MODULE -> 1.34.4
  awk -v m="$2" '$1 == "require" && $2 == m { v = $3 } $1 == m && !v { v = $2 } END { print substr(v, 2) }' "$1/go.mod"
}

build_kubernetes() {  # VERSION OUTPUT
  local v=$1 base=k8s.io/component-base/version x
  x="-X $base.gitVersion=v$v -X $base.gitMajor=${v%%.*} -X $base.gitMinor=$(cut -d. -f2 <<<"$v")"
  x+=" -X $base.gitCommit=unknown -X $base.gitTreeState=clean -X $base.buildDate=1970-01-01T00:00:00Z"
  (cd "$here" && go build -trimpath -ldflags "-s -w $x" -o "$2/kube" .)
  local program
  for program in etcd kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy kubectl; do
    ln -s kube "$2/$program"
  done
}

build_coredns() {
  (cd "$here/coredns" && go build -trimpath -ldflags "-s -w" -o "$2/coredns" .)
}

# Without a stamp `helm template` takes the cluster for an old Kubernetes and refuses
# charts that ask for a newer one.
build_helm() {
  local kubernetes x=helm.sh/helm/v3
  kubernetes=$(module_version "$here" k8s.io/kubernetes)
  (cd "$here/helm" && go build -trimpath -o "$2/helm" -ldflags "-s -w \
    -X $x/internal/version.version=v$1 \
    -X $x/pkg/lint/rules.k8sVersionMajor=1 -X $x/pkg/chartutil.k8sVersionMajor=1 \
    -X $x/pkg/lint/rules.k8sVersionMinor=$(cut -d. -f2 <<<"$kubernetes") \
    -X $x/pkg/chartutil.k8sVersionMinor=$(cut -d. -f2 <<<"$kubernetes")" helm.sh/helm/v3/cmd/helm)
}

source_hash() {  # FOLDER BUILD_FUNCTION
  { cat "$1/go.mod" "$1/go.sum"; [ ! -f "$1/main.go" ] || cat "$1/main.go"
    declare -f "$2"; go env GOVERSION GOARCH; } | sha256sum | cut -c1-12
}

ensure() {  # NAME MODULE_FOLDER MODULE BINARY
  local version folder temporary
  version=$(module_version "$2" "$3")
  folder=$tools/$1-$version-$(source_hash "$2" "build_$1")
  if [ ! -x "$folder/$4" ]; then
    exec 9>"$tools/.lock"
    flock 9
    if [ ! -x "$folder/$4" ]; then
      echo "tools: building $1 $version" >&2
      find "$tools" -maxdepth 1 -name '.build.*' -exec rm -rf {} +  # ours is the only build
      temporary=$(mktemp -d "$tools/.build.XXXXXX")
      "build_$1" "$version" "$temporary" >&2
      chmod 755 "$temporary"
      mv -T "$temporary" "$folder"
    fi
    exec 9>&-
  fi
  echo "$folder/$4"
}

[ $# -gt 0 ] || set -- kubernetes coredns helm
renice -n 10 $$ >/dev/null 2>&1 || true
for tool in "$@"; do
  case $tool in
    kubernetes) ensure kubernetes "$here" k8s.io/kubernetes kube ;;
    coredns) ensure coredns "$here/coredns" github.com/coredns/coredns coredns ;;
    helm) ensure helm "$here/helm" helm.sh/helm/v3 helm ;;
    *) echo "tools: unknown tool '$tool' (kubernetes, coredns, helm)" >&2; exit 2 ;;
  esac
done
