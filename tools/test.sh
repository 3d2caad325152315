# Sourced by ./dev: the levels of tests, their minutes, and the closing line "N passed, N failed".

passed=0
failed=0
summary=()
failures=()

note_level() {  # LEVEL PASSED FAILED SECONDS [SKIPPED]
  passed=$((passed + $2))
  failed=$((failed + $3))
  summary+=("$(printf '%-15s %4d passed %3d failed %6.1f min' "$1" "$2" "$3" "$(awk -v s="$4" 'BEGIN { print s / 60 }')")${5:+ ($5 skipped)}")
}

# Runs the CTest tests of PRESET whose label matches. The counts come from CTest's own closing line, which
# counts a skipped test as passed: we do not.
ctest_level() {  # LEVEL PRESET LABELS [NAMES]
  local start=$SECONDS log count bad skipped
  log=$(mktemp)
  ctest --test-dir "build/$2" -L "$3" -R "${4:-.}" --no-tests=error --output-on-failure -j2 2>&1 | tee "$log" | grep --line-buffered -vE '^ *[0-9]+/[0-9]+ Test|^      Start' || true
  count=$(sed -nE 's/.* tests? failed out of ([0-9]+).*/\1/p' "$log")
  bad=$(sed -nE 's/.*passed, ([0-9]+) tests? failed out of.*/\1/p' "$log")
  skipped=$(grep -cE '^ *[0-9]+/[0-9]+ Test .*\*\*\*Skipped' "$log" || true)
  keep_failures "$log"
  rm -f "$log"
  if [ -z "$count" ]; then count=1 bad=1; fi
  note_level "$1" $((count - bad - skipped)) "$bad" $((SECONDS - start)) "${skipped#0}"
}

# Tests that failed an hour of output ago are told again at the end: their names, and the last 40 lines that they printed.
keep_failures() {  # LOG of CTest
  local blocks='/^ *[0-9]+\/[0-9]+ Test /{ telling = /\*\*\*/ && !/\*\*\*Skipped/ } /% tests passed/{ telling = 0 } telling && NF'
  failures+=("$(awk "$blocks" "$1" | grep -oE 'Test +#[0-9]+: .*\*\*\*.*' || true)" "$(awk "$blocks" "$1" | tail -40)")
}

build_level() {  # LEVEL PRESET [TARGET…]: a build that fails is one failed test, and ends the run
  local start=$SECONDS
  if ! build "${@:2}"; then
    note_level "$1" 0 1 $((SECONDS - start))
    closing_line
    exit 1
  fi
  note_level "$1" 0 0 $((SECONDS - start))
}

# A real etcd and kube-apiserver for the tests that need one; they skip without PAWL_TEST_KUBECONFIG.
with_apiserver() {
  [ -z "${PAWL_TEST_KUBECONFIG:-}" ] || return 0
  setup_cluster kubernetes
  apiserver_dir=$(mktemp -d /tmp/pawl-apiserver.XXXXXX)
  trap 'python3 e2e/cluster/cluster.py apiserver-only down --dir "$apiserver_dir" >/dev/null 2>&1 || true; rm -rf "$apiserver_dir"' EXIT
  python3 e2e/cluster/cluster.py apiserver-only up --dir "$apiserver_dir" --with-garbage-collector >/dev/null
  export PAWL_TEST_KUBECONFIG=$apiserver_dir/kubeconfig PAWL_TEST_APISERVER_DIR=$apiserver_dir
}

# What has threads of its own, under ThreadSanitizer. Programs that load cpprestsdk are left out: the distribution's library
# is not instrumented, and its hand-overs look like races.
threads_level() {
  local target tests targets=() names=()
  while read -r target tests; do  # a program, and the begins of those of its tests that have threads, if not all
    targets+=("$target")
    names+=("$target: ${tests:+($tests)}")
  done <tools/tsan.targets
  build_level "build (tsan)" tsan "${targets[@]}"
  ctest_level threads tsan '^(unit|integration)$' "^($(IFS='|'; echo "${names[*]}"))"
}

# The simulator: its own tests, the seeds of bugs that were found, a thousand clusters that tenants share, and three minutes
# of seeds that each tree has anew. --long: 20,000 of either, the known bugs that it must catch, one fault at each place of
# each scenario, a day of a cluster's life, every order of events of a small gang, placement beside brute force.
sim_level() {
  build_level "build (sim)" sim pawl-sim sim_self
  ctest_level sim sim '^sim$'
  sim_part "sim: recorded" --seeds 0 --seeds-file tests/sim/seeds.txt
  if [ $# -gt 0 ]; then
    sim_part "sim: 20,000 clusters of tenants" --tenants --seeds 20000
    sim_pair "sim: 20,000 seeds" "--seeds 10000 --keep-going" "--seeds 10000 --seed 10001 --keep-going"
    sim_pair "sim: exhaustive, mutants" "--exhaustive" "--mutants --seeds 500 --exhaustive"
    sim_pair "sim: generations, 24 hours" "--generations" "--hours 24"
    placement_oracle
  else
    sim_part "sim: tenants" --tenants --seeds 1000
    start_fresh_seeds
  fi
}

sim_part() {  # NAME ARGUMENTS…: one run of pawl-sim is one test
  local start=$SECONDS name=$1
  shift
  if build/sim/bin/pawl-sim "$@"; then note_level "$name" 1 0 $((SECONDS - start)); else note_level "$name" 0 1 $((SECONDS - start)); fi
}

# A first seed that each tree has anew, so that a failure comes again.
tree_seed() {
  local tree
  tree=$(git rev-parse --short=8 'HEAD^{tree}' 2>/dev/null || printf '%08x' "$(date +%s)")
  echo $((16#${tree:0:8}))
}

# Random faults on real launchers and training processes. --long: 500 schedules of them.
schedules_level() {
  local start=$SECONDS log bad count=15
  [ $# -eq 0 ] || count=500
  log=$(mktemp)
  python3 -u tests/schedules/run.py --count "$count" --seed "$(tree_seed)" 2>&1 | tee "$log" || true
  bad=$(sed -nE 's/^RESULT .*"failures": ([0-9]+),.*/\1/p' "$log")
  rm -f "$log"
  note_level schedules $((count - ${bad:-$count})) "${bad:-$count}" $((SECONDS - start))
}

# PyTorch, JAX, TensorFlow, Ray and Horovod from the package registry, data for our own trainer, and mistakes that its tests
# have to see; part of --long.
frameworks_level() {
  tools/packages.sh tests/frameworks/apt-packages.txt
  script_level frameworks tests/frameworks/run.py
  script_level "real data" tests/trainer/real_data.py
  script_level mutations tests/trainer/mutations.py
}

script_level() {  # LEVEL SCRIPT, whose last line is "N passed, N failed" or "N passed, N failed, N skipped"
  local start=$SECONDS log ends count bad skipped
  log=$(mktemp)
  python3 -u "$2" 2>&1 | tee "$log" || true
  ends='^([0-9]+) passed, ([0-9]+) failed(, ([0-9]+) skipped)?$'
  count=$(sed -nE "s/$ends/\\1/p" "$log" | tail -1)
  bad=$(sed -nE "s/$ends/\\2/p" "$log" | tail -1)
  skipped=$(sed -nE "s/$ends/\\4/p" "$log" | tail -1)
  rm -f "$log"
  note_level "$1" "${count:-0}" "${bad:-1}" $((SECONDS - start)) "$skipped"
}

# Two runs beside each other, each of which has one thread.
sim_pair() {  # NAME ARGUMENTS ARGUMENTS
  local start=$SECONDS bad=0 log first
  log=$(mktemp)
  # shellcheck disable=SC2086
  build/sim/bin/pawl-sim $2 >"$log" 2>&1 &
  first=$!
  # shellcheck disable=SC2086
  build/sim/bin/pawl-sim $3 || bad=$((bad + 1))
  wait "$first" || bad=$((bad + 1))
  cat "$log"
  rm -f "$log"
  note_level "$1" $((2 - bad)) "$bad" $((SECONDS - start))
}

# Every small tree, and many random ones, by brute force.
placement_oracle() {
  local start=$SECONDS bad=0
  build sim unit_operator_placement
  build/sim/bin/unit_operator_placement "[oracle]" || bad=1
  note_level "placement: oracle" $((1 - bad)) "$bad" $((SECONDS - start))
}

# Beside the levels that follow, which mostly wait.
start_fresh_seeds() {
  seeds_log=$(mktemp)
  nice -n 19 build/sim/bin/pawl-sim --seconds 180 --seeds 1000000 --seed "$(tree_seed)" >"$seeds_log" 2>&1 &
  fresh_seeds=$!
  seeds_start=$SECONDS
}

end_fresh_seeds() {
  [ -n "${fresh_seeds:-}" ] || return 0
  local bad=0
  wait "$fresh_seeds" || bad=1
  tail -n $((bad ? 60 : 1)) "$seeds_log"
  rm -f "$seeds_log"
  note_level "sim: fresh seeds" $((1 - bad)) "$bad" $((SECONDS - seeds_start))
  fresh_seeds=
}

# Open MPI and MPICH of the distribution, with a worker killed in the middle.
mpi_level() {
  local start=$SECONDS bad=0
  tools/packages.sh tests/mpi/packages.txt
  python3 tests/mpi/run.py --bin build/dev/bin || bad=1
  note_level mpi $((1 - bad)) "$bad" $((SECONDS - start))
}

# --long: also on the newest control plane.
e2e_level() {
  setup_cluster kubernetes coredns helm
  end_preparing
  e2e_run e2e "$@"
  [ $# -eq 0 ] || { setup_cluster kubernetes-newest; e2e_run "e2e (newest)" --newest; }
}

e2e_run() {  # LEVEL ARGUMENTS…
  local start=$SECONDS level=$1 log count bad
  shift
  log=$(mktemp)
  python3 -u e2e/run.py "$@" 2>&1 | tee "$log" || true
  count=$(sed -nE 's/^([0-9]+) passed, ([0-9]+) failed$/\1/p' "$log" | tail -1)
  bad=$(sed -nE 's/^([0-9]+) passed, ([0-9]+) failed$/\2/p' "$log" | tail -1)
  rm -f "$log"
  if [ -z "$count" ]; then count=0 bad=1; fi
  note_level "$level" "$count" "$bad" $((SECONDS - start))
}

# 1,000 jobs at once on a real control plane with fake nodes, half of them deleted, the operator killed 20 times.
chaos_level() {
  local start=$SECONDS bad=0
  setup_cluster kubernetes helm kwok load
  python3 e2e/bench/bench.py chaos --jobs 1000 --nodes 250 --kills 20 || bad=1
  note_level chaos $((1 - bad)) "$bad" $((SECONDS - start))
}

# The programs of the test cluster and the layers below our images, begun at once with what the compilers leave of the
# processors: mostly downloads, and time in which tests wait. Who needs a part of it early waits for it (a lock).
prepare_cluster() {
  tools/packages.sh tools/packages.txt e2e/cluster/apt-packages.txt
  preparing_log=$(mktemp)
  nice -n 19 bash -c 'tools/go.sh && e2e/cluster/tools.sh kubernetes coredns helm && python3 e2e/cluster/images.py prepare' \
    >"$preparing_log" 2>&1 &
  preparing=$!
}

# What failed in it is tried again, and told, by who needs it.
end_preparing() {
  [ -n "${preparing:-}" ] || return 0
  wait "$preparing" || tail -5 "$preparing_log" >&2
  rm -f "$preparing_log"
  preparing=
}

# That no file lives on what its neighbours in a unity build include.
alone_level() {
  local start=$SECONDS bad=0
  cmake --preset release -B build/alone -DCMAKE_UNITY_BUILD=OFF "-DCMAKE_CXX_FLAGS_RELEASE=-O0" >/dev/null
  cmake --build build/alone || bad=1
  note_level "build (alone)" $((1 - bad)) "$bad" $((SECONDS - start))
}

closing_line() {
  printf '%s\n' "${failures[@]}" | sed '/^$/d'
  printf '%s\n' "${summary[@]}"
  echo "$passed passed, $failed failed"
}

# What a machine must be is said before an hour of building.
check_machine() {
  if [ "$(id -u)" -ne 0 ]; then
    echo "the end-to-end level needs root (network namespaces, mounts): run as root, or name the other levels" >&2
    exit 1
  fi
  if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    echo "the end-to-end level needs cgroup v1 or hybrid, and this machine has v2 only: boot with systemd.unified_cgroup_hierarchy=0, or name the other levels" >&2
    exit 1
  fi
}

run_levels() {
  local level long=() levels=()
  for level in "$@"; do
    if [ "$level" = --long ]; then long=(--long); else levels+=("$level"); fi
  done
  if [ ${#levels[@]} -eq 0 ]; then
    levels=(unit threads sim integration conformance schedules e2e)
    [ ${#long[@]} -eq 0 ] || levels+=(frameworks)
  fi
  case " ${levels[*]} " in *" e2e "*) check_machine ;; esac
  setup_build
  case " ${levels[*]} " in *" e2e "*) prepare_cluster ;; esac
  for level in "${levels[@]}"; do
    case "$level" in
      unit) build_level "build (dev)" dev; ctest_level unit dev '^unit$' ;;
      integration)
        build_level "build (dev)" dev
        with_apiserver
        ctest_level integration dev '^integration$'
        [ ${#long[@]} -eq 0 ] || mpi_level
        ;;
      conformance)
        [ ${#long[@]} -eq 0 ] || export PAWL_TEST_LONG=1
        build_level "build (dev)" dev
        with_apiserver
        ctest_level conformance dev '^conformance$'
        ;;
      schedules)
        build_level "build (release)" release pawl pawl-operator pawl-launch pawl-train
        schedules_level "${long[@]}"
        ;;
      frameworks)
        build_level "build (release)" release pawl pawl-launch pawl-train
        frameworks_level
        ;;
      gpu)  # on a machine with a GPU; elsewhere all of it skips
        build_level "build (release)" release gpu_driver pawl pawl-launch
        ctest_level gpu release '^gpu$'
        ;;
      threads) threads_level ;;
      sim) sim_level "${long[@]}" ;;
      e2e)
        build_level "build (release)" release pawl pawl-operator pawl-launch pawl-train
        e2e_level "${long[@]}"
        [ ${#long[@]} -eq 0 ] || { chaos_level; alone_level; }
        ;;
      *) echo "unknown level: $level (unit threads sim integration conformance schedules e2e frameworks gpu)" >&2; exit 2 ;;
    esac
  done
  end_fresh_seeds
  closing_line
  [ "$failed" -eq 0 ]
}
