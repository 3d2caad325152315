#!/bin/bash
# A stand-in for mpirun: runs `sh -c "$*"` once for each host of the list, on the first one by itself, on the others by
# what stands in place of ssh, and ends the rest when one fails.
rank=0
pids=
while read -r host slots; do
  command="export MPI_RANK=$rank MPI_SLOTS=$slots MPI_HOST=$host; $*"
  if [ $rank = 0 ]; then
    sh -c "$command" &
  else
    "$OMPI_MCA_plm_rsh_agent" -x -o ConnectionAttempts=10 "$host" "$command" &
  fi
  pids="$pids $!"
  rank=$((rank + 1))
done <"$OMPI_MCA_orte_default_hostfile"
trap 'kill $pids 2>/dev/null; exit 143' TERM
for _ in $pids; do
  wait -n || {
    code=$?
    kill $pids 2>/dev/null
    exit $code
  }
done
