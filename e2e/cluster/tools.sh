#!/usr/bin/env bash
# Builds the Go programs of the test cluster into a cache outside the tree and prints
# their paths, one a line, in the order asked for:
#
#   tools.sh kubernetes coredns helm kwok load
#   tools.sh kubernetes-newest                           the newest release, for its control plane
#   tools.sh provisioning                                the definition of ProvisioningRequests
#   tools.sh jobset trainer training-operator kueue      for the benchmarks beside them
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

build_kubernetes() {  # VERSION OUTPUT [MODULE_FILE]
  local v=$1 base=k8s.io/component-base/version x
  x="-X $base.gitVersion=v$v -X $base.gitMajor=${v%%.*} -X $base.gitMinor=$(cut -d. -f2 <<<"$v")"
  x+=" -X $base.gitCommit=unknown -X $base.gitTreeState=clean -X $base.buildDate=1970-01-01T00:00:00Z"
  (cd "$here" && go build -modfile="${3:-go.mod}" -trimpath -ldflags "-s -w $x" -o "$2/kube" .)
  local program
  for program in etcd kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy kubectl; do
    ln -s kube "$2/$program"
  done
}

build_kubernetes_newest() {  # VERSION OUTPUT
  build_kubernetes "$1" "$2" newest.mod
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

# A release of somebody else's program, built with the versions that it names itself, and the definitions that
# belong to it. KWOK stands in for kubelets; the others are what Pawl is measured beside.
release_of() {  # NAME -> MODULE VERSION PACKAGE MANIFESTS…
  case $1 in
    kwok) echo sigs.k8s.io/kwok v0.7.0 cmd/kwok ;;
    jobset) echo sigs.k8s.io/jobset v0.12.0 . config/components/crd/bases config/components/webhook/manifests.yaml ;;
    trainer) echo github.com/kubeflow/trainer/v2 v2.3.0 cmd/trainer-controller-manager manifests/base/crds \
      manifests/base/webhook/manifests.yaml manifests/base/runtimes/torch_distributed.yaml ;;
    training-operator) echo github.com/kubeflow/training-operator v1.9.0 cmd/training-operator.v1 manifests/base/crds \
      manifests/base/webhook/manifests.yaml ;;
    kueue) echo sigs.k8s.io/kueue v0.19.0 cmd/kueue config/components/crd/bases config/components/webhook/manifests.yaml ;;
    *) return 1 ;;
  esac
}

build_release() {  # NAME OUTPUT
  local module version package manifests source built
  read -r module version package manifests <<<"$(release_of "$1")"
  built=$(mktemp -d)
  GOBIN=$built go install -trimpath -ldflags "-s -w" "$(sed 's,/\.$,,' <<<"$module/$package")@$version"
  mv "$built"/* "$2/$1"
  rmdir "$built"
  source=$(cd "$2" && go mod download -json "$module@$version" | sed -nE 's/^\t"Dir": "(.*)",?$/\1/p')
  local manifest
  for manifest in $manifests; do cp -r "$source/$manifest" "$2/"; done
  chmod -R u+w "$2"
}

# Where `go install` is refused: it asks the registry for a list of versions, which not every registry has.
build_from_source() {  # NAME OUTPUT
  local module version package manifests source copy manifest
  read -r module version package manifests <<<"$(release_of "$1")"
  source=$(cd "$2" && go mod download -json "$module@$version" | sed -nE 's/^\t"Dir": "(.*)",?$/\1/p')
  copy=$(mktemp -d)
  cp -r "$source/." "$copy"
  chmod -R u+w "$copy"
  (cd "$copy" && GOFLAGS=-mod=mod go build -trimpath -ldflags "-s -w" -o "$2/$1" "./$package")
  for manifest in $manifests; do cp -r "$copy/$manifest" "$2/"; done
  rm -rf "$copy"
}

# The definition of a kind of object, as its project publishes it.
provisioning_module() { echo k8s.io/autoscaler/cluster-autoscaler/apis v0.0.0-20240830133931-adfbe7e45277; }
provisioning_file=autoscaling.x-k8s.io_provisioningrequests.yaml

build_provisioning() {  # ANYTHING OUTPUT
  local module version source
  read -r module version <<<"$(provisioning_module)"
  source=$(cd "$2" && go mod download -json "$module@$version" | sed -nE 's/^\t"Dir": "(.*)",?$/\1/p')
  install -m 644 "$source/config/crd/$provisioning_file" "$2/"
}

build_load() {
  (cd "$here/../bench/load" && go build -trimpath -ldflags "-s -w" -o "$2/load" .)
}

source_hash() {  # FOLDER BUILD_FUNCTION
  { cat "$1/go.mod" "$1/go.sum"; [ ! -f "$1/main.go" ] || cat "$1/main.go"
    declare -f "$2"; go env GOVERSION GOARCH; } | sha256sum | cut -c1-12
}

ensure() {  # NAME MODULE_FOLDER MODULE BINARY
  local version
  version=$(module_version "$2" "$3")
  ensure_in "$tools/$1-$version-$(source_hash "$2" "build_$1")" "$4" "build_$1" "$version"
}

ensure_newest() {
  local version hash
  version=$(awk '$1 == "k8s.io/kubernetes" { print substr($2, 2) }' "$here/newest.mod")
  hash=$({ cat "$here"/newest.{mod,sum} "$here/main.go"; declare -f build_kubernetes; go env GOVERSION GOARCH; } |
    sha256sum | cut -c1-12)
  ensure_in "$tools/kubernetes-$version-$hash" kube build_kubernetes_newest "$version"
}

ensure_release() {  # NAME
  local version hash build=build_release
  case $1 in jobset | kueue) build=build_from_source ;; esac
  version=$(release_of "$1" | cut -d' ' -f2)
  hash=$({ release_of "$1"; declare -f "$build"; go env GOVERSION GOARCH; } | sha256sum | cut -c1-12)
  ensure_in "$tools/$1-${version#v}-$hash" "$1" "$build" "$1"
}

ensure_provisioning() {
  local hash
  hash=$({ provisioning_module; declare -f build_provisioning; } | sha256sum | cut -c1-12)
  ensure_in "$tools/provisioning-$hash" "$provisioning_file" build_provisioning ""
}

ensure_load() {
  local hash
  hash=$({ cat "$here"/../bench/load/*.go; declare -f build_load; go env GOVERSION GOARCH; } | sha256sum | cut -c1-12)
  ensure_in "$tools/load-$hash" load build_load ""
}

ensure_in() {  # FOLDER BINARY BUILD ARGUMENT
  local folder=$1 temporary
  if [ ! -e "$folder/$2" ]; then
    exec 9>"$tools/.lock"
    flock 9
    if [ ! -e "$folder/$2" ]; then
      echo "tools: building $(basename "$folder")" >&2
      find "$tools" -maxdepth 1 -name '.build.*' -exec rm -rf {} +  # ours is the only build
      temporary=$(mktemp -d "$tools/.build.XXXXXX")
      "$3" "$4" "$temporary" >&2
      chmod 755 "$temporary"
      mv -T "$temporary" "$folder"
    fi
    exec 9>&-
  fi
  echo "$folder/$2"
}

[ $# -gt 0 ] || set -- kubernetes coredns helm
[ "$(nice)" -ge 10 ] || renice -n 10 $$ >/dev/null 2>&1 || true
for tool in "$@"; do
  case $tool in
    kubernetes) ensure kubernetes "$here" k8s.io/kubernetes kube ;;
    kubernetes-newest) ensure_newest ;;
    coredns) ensure coredns "$here/coredns" github.com/coredns/coredns coredns ;;
    helm) ensure helm "$here/helm" helm.sh/helm/v3 helm ;;
    load) ensure_load ;;
    provisioning) ensure_provisioning ;;
    kwok | jobset | trainer | training-operator | kueue) ensure_release "$tool" ;;
    *) echo "tools: unknown tool '$tool'" >&2; exit 2 ;;
  esac
done
