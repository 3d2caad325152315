// The user and the pod monkey. The user creates, suspends, resumes, scales, edits, deletes (with
// each propagation policy) and creates again under the same name; the monkey deletes what is not
// his, writes where he should not, and puts things in the way. Both say what they did to the Truth.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/api/training_queue.h"
#include "tests/sim/api_server.h"
#include "tests/sim/truth.h"

namespace pawl::sim {

inline constexpr const char* kUrgent = "urgent";          // a PriorityClass
inline constexpr int kUrgency = 10;                       // its value
inline constexpr int kMostOfSecond = 4, kMostOfBoth = 5;  // workers that these ever have quota for
std::vector<api::TrainingQueue> sim_queues();

bool is_over(const nlohmann::json& job);

class People {
 public:
  People(Engine& engine, ApiServer& api, const Knobs& knobs, Truth& truth);

  void create_job(const std::string& name);
  void create_job(const std::string& name, const nlohmann::json& spec);
  nlohmann::json draw_spec();
  const std::vector<std::string>& names() const { return names_; }

  // The user.
  void toggle_suspend();
  void set_suspended(const std::string& name, bool is_suspended);
  void scale();
  void set_replicas(const std::string& name, int replicas);
  void set_spares(const std::string& name, const nlohmann::json& found);
  void edit_template();
  void edit_capacity();
  void delete_and_maybe_recreate();
  void delete_job(const std::string& name, const std::string& propagation);
  void settle();  // resume everything, take what is in the way away

  // The monkey.
  void delete_group();
  void cut_status();     // removes one optional field
  void delete_status();  // removes all of it
  void put_foreign_pod();
  void write_foreign_field();
  void strip_owner();  // of one pod
  // Touches every job each `period` as long as `goes_on`.
  void chat_on(milliseconds period, std::function<bool()> goes_on);
  void chat();  // a writer that touches a job ten times a second for a while

  // Annotations that the monkey wrote and nobody may take away: object → value.
  const std::map<std::pair<std::string, std::string>, std::string>& foreign() const {
    return foreign_;
  }

 private:
  std::string any_job();
  nlohmann::json draw_capacity(int replicas);
  void crowd(const std::string& name, nlohmann::json& spec) const;
  void draw_scheduling(nlohmann::json& spec);
  void draw_slices(nlohmann::json& spec);
  nlohmann::json job(const std::string& name);
  AttemptTruth* truth_of(const nlohmann::json& job);
  void patch(Actor actor, const kube::Resource& resource, const std::string& name,
             const nlohmann::json& body);

  Engine& engine_;
  ApiServer& api_;
  const Knobs& knobs_;
  Truth& truth_;
  std::vector<std::string> names_;
  std::set<std::string> strangers_;  // foreign pods
  std::map<std::pair<std::string, std::string>, std::string> foreign_;
  int count_ = 0;
};

}  // namespace pawl::sim
