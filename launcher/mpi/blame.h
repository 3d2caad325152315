// Which worker's rank was killed, as mpirun itself says when a job fails. It alone has seen it: a
// daemon on the worker ends well, and mpirun's own exit code names nobody. A hint, no more: where
// nothing is recognised, the failure stays with mpirun's worker. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pawl::launcher::mpi {

struct Blame {
  std::string host;
  int signal = 0;
  bool operator==(const Blame&) const = default;
};

// Of one stream of output, fed as it comes.
class BlameScan {
 public:
  void feed(std::string_view text);
  const std::optional<Blame>& first() const { return first_; }

 private:
  void look_at(std::string_view line);

  std::string line_;     // unfinished, bounded
  std::string running_;  // Hydra names the host some lines before the signal
  std::optional<Blame> first_;
};

}  // namespace pawl::launcher::mpi
