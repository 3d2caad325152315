// A gang of real pawl-launch processes against the embedded API server over HTTP, with the tokens
// and rights that `pawl run` gives them. The test is the operator: it makes the WorkerGroup and
// edits its spec.
#pragma once

#include <sys/types.h>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cli/local/api_server.h"
#include "common/api/types.h"
#include "common/base/log.h"
#include "common/kube/informer.h"
#include "common/os/fd.h"
#include "common/os/real_clock.h"

namespace pawl::launcher::test {

struct GangOptions {
  int members = 2;
  int processes = 1;
  api::RuntimeKind runtime = api::RuntimeKind::kNative;
  int report_seconds = 1;
  bool is_in_place = false;          // failurePolicy.strategy
  bool is_program_in_place = false;  // runtime.inPlace
  int parameter_servers = 0;
  int least = 0;  // members with which the gang may go on; 0: all
};

// Some steps.
bool has_trained(const api::WorkerGroup& group);

class GangFixture {
 public:
  explicit GangFixture(const GangOptions& options);
  ~GangFixture();  // kills what still runs

  // The launcher of a slot, with this command; `changes` to its environment.
  void start(int slot, const std::vector<std::string>& command,
             const std::map<std::string, std::string>& changes = {});
  void start_all(const std::vector<std::string>& command);
  void signal(int slot, int number);
  // Its exit code, 128 + signal; -1 when it still runs after `timeout`.
  int wait(int slot, std::chrono::milliseconds timeout = std::chrono::seconds{20});
  // Until the record is as wanted; false after 20 s.
  bool until(const std::function<bool(const api::WorkerGroup&)>& condition);
  void edit_spec(const std::string& patch_json);
  void delete_record();
  void next_attempt();
  // Another pod in this slot, in the same attempt. Wait for the one before first.
  void replace(int slot, const std::vector<std::string>& command,
               const std::map<std::string, std::string>& changes = {});
  // The gang is to have this many members; those that come are started.
  void resize(int members, const std::vector<std::string>& command);

  api::WorkerGroup record();
  std::string output(int slot) const;  // of launcher and processes
  api::Failure termination(int slot) const;
  std::string token_file(int slot, const std::string& audience, const std::string& pod_uid) const;
  std::vector<std::string> checkpoints() const;      // published ones
  static std::string checkpoint(std::int64_t step);  // its name in attempt and generation 1
  pid_t pid(int slot) const { return pids_.at(slot); }
  const std::string& folder() const { return folder_; }
  static std::vector<std::string> trainer(const std::vector<int>& numbers);

 private:
  std::string uid(int slot) const;
  std::string pod(int slot) const;
  int incarnation(int slot) const;
  void create_record();
  void write_pods();
  nlohmann::json call(kube::HttpRequest request);

  GangOptions options_;
  int slots_ = options_.members;  // that the record names
  RealClock clock_;
  Log log_{clock_, [](std::string_view) {}};
  std::string folder_;
  std::int64_t attempt_ = 1;
  std::map<int, int> replaced_;  // how often, by slot
  std::unique_ptr<local::StoreTransport> store_;
  std::unique_ptr<local::TokenAuthority> tokens_;
  std::unique_ptr<local::ApiServer> server_;
  std::map<int, pid_t> pids_;
  std::mutex mutex_;
  std::condition_variable changed_;
  api::WorkerGroup record_;
  std::unique_ptr<kube::Informer> informer_;
};

}  // namespace pawl::launcher::test
