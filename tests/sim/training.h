// A stub of the training processes: gangs that step together, seal shards, report, fail, park and
// finish; what each process holds in memory; and the storage where checkpoints are published. It
// speaks the launcher's channel as pawl-train does. A gang makes a step only while all of its ranks
// live and work. One thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "launcher/membership/action.h"
#include "launcher/membership/generations.h"
#include "tests/sim/engine.h"
#include "tests/sim/knobs.h"
#include "tests/sim/truth.h"

namespace pawl::sim {

// One rank's process, as its container runs it.
class Rank {
 public:
  virtual ~Rank() = default;
  virtual void say(api::channel::FromProcess message) = 0;
  virtual void exit_process(int code, int signal, bool was_told) = 0;
  virtual const std::string& uid() const = 0;  // of its pod
};

struct Published {
  std::int64_t step = 0, attempt = 0, generation = 0;
  int shards = 0, world_size = 0;
};

// How one job trains: drawn once.
struct Course {
  std::int64_t steps = 10, save_every = 3;
  milliseconds step_time{500};
};

class Training {
 public:
  Training(Engine& engine, const Knobs& knobs, Truth& truth)
      : engine_(engine), knobs_(knobs), truth_(truth) {}

  const Course& course(const std::string& job_uid);
  // Native: after Welcome. The gang is known by job, attempt and generation.
  void enter(const std::string& job_uid, const api::channel::Welcome& welcome, Rank& rank);
  // Custom: it is started. What happens from here on may explain an end.
  void expect_program(const std::string& job_uid, const membership::Placement& place);
  // … and runs: when all of its generation are there, for the course's time, and says nothing.
  void run_program(const std::string& job_uid, const membership::Placement& place, Rank& rank);
  void leave(Rank& rank);  // its process has ended, however
  // By order, which is void in any other generation.
  void park(Rank& rank, std::int64_t generation);
  std::int64_t generation_of(Rank& rank);  // in which it works; 0: none
  bool hangs(const Rank& rank) const { return hung_.contains(&rank); }
  // kill -9 of the highest rank of a gang that trains; false: there is none.
  bool kill_one();
  bool hang_one();  // the same one, which neither goes on nor ends
  // A rank of a gang that trains holds it up, for so long; false: there is none.
  bool slow_down_one(milliseconds time);
  // Two neighbours of a gang that trains do not reach each other for so long, whose launchers do:
  // they break the gang, and each after it. False: there is none.
  bool cut_pair(milliseconds time);
  void join_pairs();
  const std::set<std::pair<std::string, std::string>>& cut_pairs() const { return cut_pairs_; }
  bool give_up_one();  // exit 75; of a gang that has been broken before
  void save_and_stop(Rank& rank);
  void save(Rank& rank);
  void save_soon(Rank& rank);  // its gang, with the next step

  // Storage.
  membership::CheckpointSelected select(const std::string& job_uid,
                                        const std::vector<api::LineageEntry>& lineage) const;
  void publish(const std::string& job_uid, const membership::PublishCheckpoint& publish);
  const std::vector<Published>& published(const std::string& job_uid) { return stored_[job_uid]; }
  // A generation that began with a state which the rank that it named as source does not hold.
  const std::string& invented() const { return invented_; }

  bool may_fail = false;        // the safety phase
  int starts_to_fail = 0;       // the next ones
  std::optional<Course> fixed;  // instead of drawing one for each job

 private:
  using Key = std::tuple<std::string, std::int64_t, std::int64_t>;
  struct Gang {
    int world_size = 1;
    std::map<int, Rank*> ranks;
    std::int64_t step = 0, start_step = 0, base = 0;
    int source_rank = -1;
    milliseconds stall{0};  // of its next step, by a checkpoint
    bool is_started = false, is_over = false;
    bool is_to_save = false;                 // with the next step
    bool is_program = false;                 // another framework's: it only ever ends
    bool has_failed = false;                 // … by itself
    int excuses = 0;                         // what could explain that, when the first was started
    bool has_half_step = false;              // it broke while some had applied a step more
    std::optional<std::pair<int, int>> cut;  // the first will say that it does not reach the second
  };
  std::optional<std::pair<int, int>> cut_in(const Gang& gang) const;
  void wait_for_answer(const Key& key, std::pair<int, int> cut);
  void begin(const Key& key, Gang& gang);
  void begin_program(const Key& key, Gang& gang);
  void fail_beside(const Key& key, int number);
  int excuses(const Key& key);
  void break_up(Gang& gang);
  void come_to_rest(const Key& key, int number, const std::string& why, int unreached = -1);
  void step_later(const Key& key, milliseconds after = milliseconds{0});
  milliseconds step_time(const Key& key);
  milliseconds time_to_begin(const Gang& gang) const;
  void step(const Key& key);
  void seal(Gang& gang, int rank);
  std::map<Key, Gang>::iterator find_training();
  void hang(const Key& key, int rank);
  void fail_one(const Key& key, Gang& gang);
  bool is_stalled(const Gang& gang) const;
  int slow_rank(const Gang& gang) const;  // -1: none
  int draw_exit(const std::string& job_uid, std::int64_t attempt, int& signal);
  void finish(const Key& key, Gang& gang);
  std::pair<const Key, Gang>* find(Rank& rank);

  Engine& engine_;
  const Knobs& knobs_;
  Truth& truth_;
  std::map<std::string, Course> courses_;
  std::map<Key, Gang> gangs_;
  std::map<std::string, std::vector<Published>> stored_;
  std::map<const Rank*, membership::Holding> memory_;
  std::set<const Rank*> hung_, slow_;
  std::set<std::pair<std::string, std::string>> cut_pairs_;  // UIDs of pods, in order
  std::string invented_;
};

}  // namespace pawl::sim
