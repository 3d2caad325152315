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
