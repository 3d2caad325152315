// torchrun's command line, taken apart: what it would start on this machine. The launcher stands
// where torchrun stood, so that the script is started directly. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace pawl::cli::convert {

struct Torchrun {
  std::vector<std::string> command;  // python3 -u script arguments…
  std::string processes;             // of --nproc-per-node; "" if it was not given
  std::vector<std::string> options;  // what was dropped, as written
  bool gives_local_rank = false;     // torch.distributed.launch passed --local-rank to the script
  std::string unknown;               // an option that is not torchrun's: nothing else is filled in
};

// Nothing if the words do not start torchrun.
std::optional<Torchrun> take_apart(const std::vector<std::string>& words);
// Each command of a shell script that starts torchrun. What only the shell knows ($NAME, $(…))
// stands as written.
std::vector<Torchrun> torchruns_in(const std::string& script);
// Whether the text mentions torchrun, as in a shell script.
bool mentions_torchrun(const std::string& text);

}  // namespace pawl::cli::convert
