// Drives the production WatchMachine in virtual time, as kube::Informer does with threads: one step
// after the other, and news of an earlier step are dropped.
#pragma once

#include <memory>

#include "common/kube/watch_machine.h"
#include "tests/sim/engine.h"

namespace pawl::sim {

class Reflector {
 public:
  Reflector(Engine& engine, kube::Transport& transport, kube::InformerOptions options,
            kube::InformerEvents events);
  ~Reflector() {
    *is_alive_ = false;
    if (handle_ != 0) transport_.cancel(handle_);
  }
  Reflector(const Reflector&) = delete;
  Reflector& operator=(const Reflector&) = delete;
  void start() { perform(machine_.start()); }

 private:
  void perform(kube::WatchStep step);
  template <typename Input>
  void feed(std::uint64_t number, const Input& input) {
    if (number != number_) return;
    kube::WatchStep next = input();
    if (next.kind == kube::WatchStep::Kind::kNone) return;
    const kube::RequestHandle superseded = std::exchange(handle_, 0);
    if (superseded != 0) transport_.cancel(superseded);
    perform(std::move(next));
  }

  Engine& engine_;
  kube::Transport& transport_;
  const kube::InformerOptions options_;
  const kube::InformerEvents events_;
  kube::WatchMachine machine_;
  std::uint64_t number_ = 0;
  kube::RequestHandle handle_ = 0;
  std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);
};

}  // namespace pawl::sim
