// The file of a trace, and the folder that it is to be in.
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>

#include "common/base/json.h"
#include "common/store/file_store.h"
#include "trainer-runtime/trainer/trace.h"

namespace pawl::trainer {
namespace {

using std::chrono::duration_cast;
using std::chrono::microseconds;
using std::chrono::nanoseconds;

// Rows, in the words of the format: threads of a process.
constexpr int kTraining = 0, kNetwork = 1;

// The newest: some steps of them.
constexpr std::size_t kFlightRecords = 256;

template <typename... Values>
std::string formatted(const char* format, Values... values) {
  std::array<char, 400> text{};
  std::snprintf(text.data(), text.size(), format, values...);
  return text.data();
}

std::string row_name(int rank, int row, const char* name) {
  return formatted(R"({"ph":"M","pid":%d,"tid":%d,"name":"thread_name","args":{"name":"%s"}},)"
                   "\n",
                   rank, row, name);
}

long long micros_of(nanoseconds time) { return duration_cast<microseconds>(time).count(); }

}  // namespace

Status Trace::put(const std::string& name, const std::string& text) const {
  std::error_code ignored;  // without a working folder the relative path fails where it is used
  std::string root = std::filesystem::absolute(config_.folder, ignored).lexically_normal();
  while (root.size() > 1 && root.back() == '/') root.pop_back();
  store::FileStore store{store::make_posix_file_system(), std::move(root)};
  return store.put(name, std::as_bytes(std::span(text)), true);
}

Status Trace::open() {
  if (!is_wanted()) return {};
  const std::string trial = "pawl-trace-trial-rank" + std::to_string(ring_.rank());
  const Status tried = put(trial, "");
  if (tried) {
    std::error_code ignored;
    std::filesystem::remove(std::filesystem::path(config_.folder) / trial, ignored);
    return {};
  }
  const Code code = tried.error().code;
  const bool may_pass = code == Code::kIo || code == Code::kOutcomeUnknown;
  const std::string why = "trace.folder: " + tried.error().message +
                          (may_pass ? "" : "; name a folder that every rank can make and write");
  if (options_.start_step == 0) return fail(may_pass ? Code::kUnavailable : Code::kInvalid, why);
  // Hours of training are worth more.
  options_.print("rank " + std::to_string(ring_.rank()) + " writes no trace: " + why);
  is_refused_ = true;
  return {};
}

std::string Trace::file_name(const char* kind) const {
  const std::string generation = std::to_string(options_.generation);
  return std::string(kind) + "-rank" + std::to_string(ring_.rank()) +
         (options_.generation > 1 ? "-generation" + generation : "") + ".json";
}

// Whole ones of absolute times, so that what lies within does so in the file, too.
std::int64_t Trace::micros(SteadyPoint time) const {
  return micros_of(time.time_since_epoch() + wall_offset_);
}

std::string Trace::text_of(const Event& event) const {
  const std::int64_t begun = micros(event.begun), ended = micros(event.ended);
  const double whole = std::max(static_cast<double>((event.ended - event.begun).count()), 1.0);
  std::string arguments =
      formatted(R"({"step":%lld,"waited_us":%lld})", static_cast<long long>(event.step),
                micros_of(event.times.waited));
  if (event.name == kStep) {
    arguments = formatted(
        R"({"step":%lld,"exposed_us":%lld,"network_us":%lld,"exposed_percent":%.3f})",
        static_cast<long long>(event.step), micros_of(event.times.waited),
        micros_of(event.times.ran), 100 * static_cast<double>(event.times.waited.count()) / whole);
  }
  return formatted(
      R"({"ph":"X","pid":%d,"tid":%d,"ts":%lld,"dur":%lld,"name":"%s","cat":"training","args":%s},)"
      "\n",
      ring_.rank(), kTraining, static_cast<long long>(begun), static_cast<long long>(ended - begun),
      event.name, arguments.c_str());
}

std::string Trace::text_of(const collective::Record& record) const {
  const std::int64_t begun = micros(record.begun), ended = micros(record.ended);
  return formatted(
      R"({"ph":"X","pid":%d,"tid":%d,"ts":%lld,"dur":%lld,"name":"%s","cat":"network","args":)"
      R"({"sequence":%llu,"bucket":%u,"bytes":%llu,"queued_us":%lld}},)"
      "\n",
      ring_.rank(), kNetwork, static_cast<long long>(begun), static_cast<long long>(ended - begun),
      record.operation, static_cast<unsigned long long>(record.sequence), record.bucket,
      static_cast<unsigned long long>(record.bytes), micros_of(record.begun - record.queued));
}

void Trace::write_flight(const std::string& why) {
  if (!is_wanted()) return;
  const std::size_t all = ring_.records(0, scratch_), count = std::min(all, kFlightRecords);
  if (count == 0 || scratch_[all - 1].ended != SteadyPoint{}) return;  // it failed elsewhere
  const auto time = [&](SteadyPoint point) {
    return point == SteadyPoint{} ? nlohmann::ordered_json()
                                  : nlohmann::ordered_json(micros(point));
  };
  nlohmann::ordered_json records = nlohmann::ordered_json::array();
  for (const collective::Record& record : std::span(scratch_).subspan(all - count, count)) {
    records.push_back({{"sequence", record.sequence},
                       {"operation", record.operation},
                       {"bucket", record.bucket},
                       {"bytes", record.bytes},
                       {"queued", time(record.queued)},
                       {"begun", time(record.begun)},
                       {"ended", time(record.ended)}});
    if (record.ended == SteadyPoint{}) records.back()["exchanges"] = record.exchanges;
  }
  const nlohmann::ordered_json object = {{"rank", ring_.rank()},
                                         {"ranks", ring_.world_size()},
                                         {"generation", options_.generation},
                                         {"why", why},
                                         {"records", std::move(records)}};
  const std::string name = file_name("flight");
  using Handler = nlohmann::ordered_json::error_handler_t;
  if (const Status put_it = put(name, object.dump(1, ' ', false, Handler::replace) + "\n"); !put_it)
    options_.print("trace: rank " + std::to_string(ring_.rank()) + " cannot write " + name + ": " +
                   put_it.error().message);
}

std::string Trace::text() const {
  const int rank = ring_.rank();
  std::string text =
      formatted(R"({"displayTimeUnit":"ms","otherData":{"rank":%d,"ranks":%d,"generation":%lld,)"
                R"("events_without_room":%zu},"traceEvents":[)"
                "\n",
                rank, ring_.world_size(), static_cast<long long>(options_.generation), dropped_);
  text += row_name(rank, kTraining, "training") + row_name(rank, kNetwork, "network");
  for (const Event& event : events_) text += text_of(event);
  for (const collective::Record& record : records_) text += text_of(record);
  // The last, which no comma follows.
  return text + formatted(R"({"ph":"M","pid":%d,"name":"process_name","args":{"name":"rank %d"}}]})"
                          "\n",
                          rank, rank);
}

}  // namespace pawl::trainer
