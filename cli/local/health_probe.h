// One readiness probe: GET /readyz on 127.0.0.1 without blocking, for the poll loop of the process
// node. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/os/fd.h"

namespace pawl::local {

class HealthProbe {
 public:
  // Connects; a probe that could not even begin has failed.
  HealthProbe(std::uint16_t port, std::string path);

  int fd() const { return fd_.get(); }  // -1: failed
  short events() const;                 // for poll
  // Goes on after poll; the verdict when there is one: whether the answer was 2xx.
  std::optional<bool> proceed();

 private:
  os::Fd fd_;
  std::string request_;
  std::string answer_;
  bool is_sent_ = false;
};

}  // namespace pawl::local
