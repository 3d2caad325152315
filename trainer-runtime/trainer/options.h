// The command line of pawl-train. Pure.
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"

namespace pawl::trainer {

inline constexpr char kUsage[] =
    "pawl-train: trains a model on this process's part of a gang\n"
    "\n"
    "  --config FILE            configuration as JSON; default: the variable PAWL_TRAINER_CONFIG\n"
    "  --steps N                optimizer steps, instead of the configuration's\n"
    "Without a launcher (PAWL_CHANNEL_FD), alone or with torchrun's RANK, WORLD_SIZE, MASTER_ADDR, "
    "MASTER_PORT:\n"
    "  --checkpoint-uri URI     file:///folder that all ranks share; default: no checkpoints\n"
    "  --run-id ID              a run loads its own checkpoints only; default: run\n"
    "  --checkpoint-seconds N   between checkpoints; default 60\n"
    "  --keep N                 newest checkpoints to keep; default 3\n"
    "\n"
    "Exit codes: 0 done, 75 stopped or lost a peer (run again), 93 the configuration cannot work, "
    "1 anything else.\n";

struct Options {
  std::string config_path, checkpoint_uri, run_id = "run";
  std::int64_t steps = 0;
  int checkpoint_seconds = 60, keep = 3;
  bool is_help = false;
};

// Invalid with the option's name.
Result<Options> parse_options(const std::vector<std::string>& arguments);

}  // namespace pawl::trainer
