#include "cli/convert/torchrun.h"

#include <catch2/catch_test_macros.hpp>

using namespace pawl::cli::convert;

namespace {
using Words = std::vector<std::string>;
}

TEST_CASE("torchrun: what it would start is what is left", "[cli]") {
  struct Case {
    Words given, command;
    std::string processes;
  };
  const std::vector<Case> cases = {
      {{"torchrun", "train.py", "--lr=1"}, {"python3", "-u", "train.py", "--lr=1"}, ""},
      {{"/opt/bin/torchrun", "--nnodes=2", "--nproc_per_node", "4", "--rdzv-backend=c10d", "-m",
        "pkg.train", "-x"},
       {"python3", "-u", "-m", "pkg.train", "-x"},
       "4"},
      {{"python", "-m", "torch.distributed.run", "--nproc-per-node=gpu", "a.py"},
       {"python", "-u", "a.py"},
       "gpu"},
      {{"python3", "-u", "-m", "torch.distributed.launch", "--use_env", "a.py"},
       {"python3", "-u", "a.py"},
       ""},
      {{"torchrun", "--no-python", "--standalone", "./a.sh"}, {"./a.sh"}, ""},
  };
  for (const Case& each : cases) {
    const auto found = take_apart(each.given);
    REQUIRE(found);
    CHECK(found->command == each.command);
    CHECK(found->processes == each.processes);
    CHECK(found->unknown.empty());
    CHECK_FALSE(found->gives_local_rank);
  }
  CHECK(take_apart({"torchrun", "--nnodes", "2", "a.py"})->options == Words{"--nnodes=2"});
  CHECK(take_apart({"python", "-m", "torch.distributed.launch", "a.py"})->gives_local_rank);
}

TEST_CASE("torchrun: other commands are left alone, unknown options named", "[cli]") {
  CHECK_FALSE(take_apart({}));
  CHECK_FALSE(take_apart({"python3", "train.py"}));
  CHECK_FALSE(take_apart({"python3", "-m", "train"}));
  CHECK_FALSE(take_apart({"sh", "-c", "torchrun a.py"}));
  CHECK(take_apart({"torchrun", "--new-option", "a.py"})->unknown == "--new-option");
  CHECK(take_apart({"torchrun", "--nnodes"})->unknown == "--nnodes");
  CHECK(mentions_torchrun("exec torchrun a.py"));
  CHECK_FALSE(mentions_torchrun("python a.py"));
}

TEST_CASE("torchrun: it is found in a shell script, with what the script says it starts", "[cli]") {
  struct Case {
    std::string script, processes, program;
  };
  const std::vector<Case> cases = {
      {"torchrun --nproc_per_node=4 train.py", "4", "train.py"},
      {"cd /app && exec torchrun --nproc-per-node 8 --nnodes=2 a.py; echo done", "8", "a.py"},
      {"# torchrun of old: --nproc_per_node=2\nA=1 torchrun \\\n  --nproc_per_node '4' \\\n  "
       "a.py\n",
       "4", "a.py"},
      {"if true; then python3 -m torch.distributed.run --nproc_per_node=gpu \"a b.py\"; fi", "gpu",
       "a b.py"},
      {"torchrun --nproc_per_node=$(nvidia-smi -L | wc -l) a.py", "$(nvidia-smi -L | wc -l)",
       "a.py"},
      {"torchrun --nproc_per_node=`nproc --all` a.py", "`nproc --all`", "a.py"},
      {"torchrun --nproc_per_node=\"${GPUS}\" a.py", "${GPUS}", "a.py"},
      {"torchrun a.py", "", "a.py"},
  };
  for (const Case& each : cases) {
    INFO(each.script);
    const auto found = torchruns_in(each.script);
    REQUIRE(found.size() == 1);
    CHECK(found[0].processes == each.processes);
    REQUIRE(found[0].command.size() == 3);
    CHECK(found[0].command.back() == each.program);
  }
  CHECK(torchruns_in("torchrun --nproc_per_node=2 a.py || torchrun b.py").size() == 2);
  CHECK(torchruns_in("torchrun --new-option a.py").at(0).unknown == "--new-option");
  for (const char* other : {"", "echo 'torchrun a.py'", "RUN='torchrun a.py'; $RUN", "$("}) {
    INFO(other);
    CHECK(torchruns_in(other).empty());
  }
}
