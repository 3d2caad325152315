// The seam to whoever started the trainer: a launcher (channel_session.h) or nobody (standalone.h).
// One thread.
#pragma once

#include <string>

#include "common/api/channel.h"
#include "common/base/result.h"

namespace pawl::trainer {

struct Orders {
  bool is_stopping = false;           // finish the step and leave
  bool is_saving = false;             // … with a checkpoint
  bool is_checkpoint_wanted = false;  // of the next confirmed step
};

class Session {
 public:
  virtual ~Session() = default;
  // Everything that was ordered since the last call; does not wait. Unavailable: the launcher is
  // gone.
  virtual Result<Orders> poll() = 0;
  // This rank is wanted at rest, as soon as it can be.
  virtual bool is_parking() const { return false; }
  virtual Status report(const api::channel::Report& report) = 0;
  virtual Status done(std::int64_t step) = 0;
};

}  // namespace pawl::trainer
