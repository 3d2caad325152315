// The writer thread: everything of the launcher that touches storage, one job after the other. Each
// rank has two buffers, so the queue is bounded. Answers come through the inbox. Methods from the
// owner thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/os/fd.h"
#include "common/store/store.h"
#include "launcher/loop/inbox.h"
#include "launcher/membership/action.h"

namespace pawl::launcher {

struct SaverOptions {
  std::string uri;  // empty: there is no storage, and nothing may be asked
  std::string job_uid;
  int keep = 3;
  std::function<Result<std::unique_ptr<store::Store>>(const std::string& uri)> open =
      store::open_store;  // tests give another one
};

struct SaverEvents {  // on the owner thread
  std::function<void(membership::CheckpointSelected)> on_selected;
  std::function<void(membership::ShardWritten)> on_written;
  std::function<void(membership::PublishDone)> on_published;
  std::function<void(const std::string& what)> on_warning;
};

class Saver {
 public:
  Saver(SaverOptions options, std::shared_ptr<Inbox> owner, SaverEvents events);
  // Waits for the job under way; those not begun are dropped.
  ~Saver();

  void select(const membership::SelectCheckpoint& select);
  void write(const membership::WriteShard& write, os::Fd buffer);
  void publish(const membership::PublishCheckpoint& publish);
  // What goes wrong in these two is a warning.
  void clean_up(const membership::CleanUpCheckpoints& clean_up);
  void discard(const membership::DiscardCheckpoint& discard);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pawl::launcher
