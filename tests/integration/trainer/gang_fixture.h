// A gang of real pawl-train processes, each under a launcher that the test plays.
#pragma once

#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "common/checkpoint/checkpoint.h"
#include "common/store/store.h"
#include "tests/integration/trainer/launch.h"
#include "tests/unit/trainer/samples.h"

namespace pawl::test {

struct Setup {
  Folder folder;
  std::string config_path, log_path = folder.path() + "/log";
  TrainerConfig config;
  explicit Setup(std::int64_t steps) {
    config = small_config(folder.write("text", small_text(40'000)));
    config.steps = steps;
    config_path = folder.write("config.json", format_config(config));
  }
  std::string log() const {
    std::ifstream file(log_path);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  std::string uri() const { return "file://" + folder.path() + "/checkpoints"; }
};

using Gang = std::vector<std::unique_ptr<Launched>>;
inline constexpr std::int64_t kForever = 10'000'000;

// Greets all ranks and tells each who its peers are.
inline bool form(Gang& gang, const std::string& load_uri = "", std::int64_t start_step = 0) {
  channel::Welcome welcome;
  welcome.world_size = static_cast<int>(gang.size());
  welcome.attempt = welcome.generation = 1;
  welcome.key = "00112233";
  welcome.load_uri = load_uri;
  welcome.start_step = start_step;
  welcome.checkpoint_seconds = 100'000;
  for (std::size_t rank = 0; rank < gang.size(); ++rank) {
    const auto hello = gang[rank]->next<channel::Hello>();
    if (!hello || hello->data_port == 0 || hello->config_hash.size() != 64) return false;
    welcome.peers.push_back(
        {static_cast<int>(rank), os::join_host_port("127.0.0.1", hello->data_port)});
  }
  for (std::size_t rank = 0; rank < gang.size(); ++rank) {
    welcome.rank = static_cast<int>(rank);
    gang[rank]->send(welcome);
  }
  return true;
}

inline Gang launch(const Setup& setup, int count) {
  Gang gang;
  for (int i = 0; i < count; ++i) {
    gang.push_back(std::make_unique<Launched>(
        std::vector<std::string>{"--config", setup.config_path}, setup.log_path));
  }
  return gang;
}

// What a launcher does with the newest sealed shard of every rank.
inline checkpoint::Manifest store_checkpoint(store::Store& store, Gang& gang) {
  checkpoint::Manifest manifest{.id = {gang[0]->sealed().back().step, 1, 1},
                                .job_uid = "job",
                                .run_id = "job",
                                .world_size = static_cast<int>(gang.size())};
  manifest.trainer_json = gang[0]->sealed().back().manifest_json;
  for (std::size_t rank = 0; rank < gang.size(); ++rank) {
    const auto bytes = gang[rank]->content(gang[rank]->sealed().back());
    manifest.shards.push_back(*checkpoint::write_shard(store, manifest.id, static_cast<int>(rank),
                                                       manifest.world_size, bytes));
  }
  return *checkpoint::publish(store, manifest);
}

// Reports until `step`, which some ranks may pass.
inline bool train_until(Launched& leader, std::int64_t step) {
  while (const auto report = leader.next<channel::Report>()) {
    if (report->step >= step) return true;
  }
  return false;
}

}  // namespace pawl::test
