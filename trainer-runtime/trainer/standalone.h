// A trainer that nobody launched: one process, or several with torchrun's variables (RANK,
// WORLD_SIZE, MASTER_ADDR, MASTER_PORT), which meet at rank 0's port. Whoever reaches that port can
// join: without a launcher the network is trusted, as it is by torchrun. One thread.
#pragma once

#include <map>

#include "common/api/channel.h"
#include "trainer-runtime/trainer/session.h"
#include "trainer-runtime/trainer/signals.h"

namespace pawl::trainer {

struct Place {
  int rank = 0, world_size = 1;
  std::string master_address;
  std::uint16_t master_port = 0;
};
// Invalid with the variable's name; the place of a single process where RANK and WORLD_SIZE are
// absent.
Result<Place> place_from(const std::map<std::string, std::string>& environment);

// Every rank says hello to rank 0 and gets the gang back. Invalid: another configuration.
// Unavailable: not all came within two minutes. Cancelled: a signal came first.
Result<api::channel::Welcome> meet(const Place& place, const api::channel::Hello& hello,
                                   Signals& signals);

class StandaloneSession final : public Session {
 public:
  explicit StandaloneSession(Signals& signals) : signals_(signals) {}
  Result<Orders> poll() override {
    const bool is_stopping = signals_.has_come();
    return Orders{is_stopping, is_stopping, false};
  }
  Status report(const api::channel::Report&) override { return {}; }
  Status done(std::int64_t) override { return {}; }

 private:
  Signals& signals_;
};

}  // namespace pawl::trainer
