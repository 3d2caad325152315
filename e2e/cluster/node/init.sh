#!/bin/bash
# PID 1 of a node: the first process of its PID and mount namespaces. The kernel kills all
# others with it, so `kill -9` of this process is a power-off, and its mounts go with it.
#
# From the environment: DIR NAME IP KUBERNETES (folder of the programs) KUBECONFIG,
# IMAGES, the archives that must be there before a pod starts, and API_READY, a file that
# exists once the API server has answered.
set -u

mount --make-rshared /
mount -t tmpfs tmpfs /run
mkdir -p /run/netns "$DIR/log" "$DIR/container-logs" "$DIR/imported"
mount --bind "$DIR/container-logs" /var/log/containers

# Like an init system: what dies is started again, so a test may kill a kubelet; but for what a test
# has stopped.
keep() {
  local log=$DIR/log/$1.log stopped=$DIR/stopped-$1
  shift
  while :; do
    [ -e "$stopped" ] || "$@" >>"$log" 2>&1
    sleep 0.2
  done
}

rm -f "$DIR/containerd.sock"
keep containerd containerd -c "$DIR/containerd.toml" &
until ctr -a "$DIR/containerd.sock" version >/dev/null 2>&1; do sleep 0.1; done

for archive in $IMAGES; do
  marker=$DIR/imported/$(basename "$archive")
  if [ ! "$marker" -nt "$archive" ]; then
    ctr -a "$DIR/containerd.sock" -n k8s.io images import "$archive" >>"$DIR/log/import.log" 2>&1 &&
      touch "$marker"
  fi
done

keep kubelet "$KUBERNETES/kubelet" --config="$DIR/kubelet.yaml" --kubeconfig="$KUBECONFIG" \
  --hostname-override="$NAME" --node-ip="$IP" --root-dir="$DIR/kubelet" --cert-dir="$DIR/kubelet-pki" &

# Earlier it would be refused, as its role is not there yet, and come back seconds later.
until [ -e "$API_READY" ]; do sleep 0.05; done
keep kube-proxy "$KUBERNETES/kube-proxy" --config="$DIR/kube-proxy.yaml" &

# Also reaps the orphans of the containers.
while :; do
  wait
  sleep 1
done
