// The environment of one training process: what the pod has, torchrun's variables, the channel,
// the pulse. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "launcher/membership/action.h"
#include "launcher/settings.h"

namespace pawl::launcher {

struct ProcessPlace {
  int local_rank = 0;
  int channel_fd = -1, pulse_fd = -1;
  std::string error_file;  // "": no writable place was found
  std::optional<membership::Placement>
      placement;  // none: a Native process, which hears its rank in Welcome
};

std::map<std::string, std::string> process_env(const Settings& settings, const ProcessPlace& place);

}  // namespace pawl::launcher
