#include <condition_variable>
#include <filesystem>
#include <iostream>
#include <mutex>

#include "cli/commands.h"
#include "cli/logs/log_lines.h"
#include "cli/run/run_command.h"
#include "common/os/real_clock.h"

namespace pawl::cli {
namespace {

constexpr std::chrono::hours kSilenceMax{24 * 7};  // training may say nothing for long
constexpr int kRankMax = 2048 * 64, kAttemptMax = 1'000'000'000, kTailMax = 1'000'000'000;

int complain(const Error& error, int exit_code) {
  std::cerr << "pawl: " << error.message << "\n";
  return exit_code;
}

kube::HttpRequest log_request(const std::string& ns, const LogSource& source,
                              const LogOptions& options) {
  kube::HttpRequest request;
  request.target = kube::path_of(kube::resources::kPods, ns, source.pod, "log") +
                   "?container=" + kube::encode_query(source.container);
  if (options.is_following) request.target += "&follow=true";
  if (options.tail_lines) request.target += "&tailLines=" + std::to_string(*options.tail_lines);
  if (options.is_following) request.timeout = kSilenceMax;
  return request;
}

// Reads the sources to standard output: all at once when following, else one after the other, so
// that each rank's log is whole. The transport's threads write here, one at a time.
class Reader {
 public:
  Reader(Connection& connection, std::string ns, const std::vector<LogSource>& sources)
      : connection_(connection), ns_(std::move(ns)), sources_(sources), lines_(sources) {}

  // The errors of the sources that could not be read; the others have been.
  std::vector<std::string> read(const LogOptions& options) {
    for (std::size_t i = 0; i < sources_.size() && !is_output_gone(); ++i) {
      start(i, options);
      if (!options.is_following) wait();
    }
    wait();
    return errors_;
  }

 private:
  void start(std::size_t index, const LogOptions& options) {
    const kube::HttpRequest request = log_request(ns_, sources_[index], options);
    {
      const std::lock_guard lock(mutex_);
      ++open_;
    }
    handles_.push_back(connection_.transport().stream(
        request, [this, index](std::string_view bytes) { take(index, bytes); },
        [this, index, request](const Result<kube::HttpResponse>& response) {
          end(index, request, response);
        }));
  }

  void take(std::size_t index, std::string_view bytes) {
    const std::lock_guard lock(mutex_);
    write(lines_.add(index, bytes));
  }

  void end(std::size_t index, const kube::HttpRequest& request,
           const Result<kube::HttpResponse>& response) {
    const std::lock_guard lock(mutex_);
    write(lines_.finish(index));
    const bool is_whole = response && response->status / 100 == 2;
    if (!is_whole && !is_output_gone_) {
      const Error error =
          response ? kube::read_response(request, *response).error() : response.error();
      errors_.push_back("pod " + sources_[index].pod + ": " + explain(error, connection_.place()));
    }
    --open_;
    changed_.notify_all();
  }

  void write(const std::string& text) {
    if (is_output_gone_ || text.empty()) return;
    std::cout << text << std::flush;
    is_output_gone_ = !std::cout;  // `| head` has seen enough
    if (is_output_gone_) changed_.notify_all();
  }

  bool is_output_gone() {
    const std::lock_guard lock(mutex_);
    return is_output_gone_;
  }

  // Until nobody calls back any more.
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_ == 0 || is_output_gone_; });
    if (open_ == 0) return;
    lock.unlock();
    for (const kube::RequestHandle handle : handles_) connection_.transport().cancel(handle);
    lock.lock();
    changed_.wait(lock, [this] { return open_ == 0; });
  }

  Connection& connection_;
  const std::string ns_;
  const std::vector<LogSource>& sources_;
  std::mutex mutex_;
  std::condition_variable changed_;
  LogLines lines_;
  std::vector<std::string> errors_;
  std::vector<kube::RequestHandle> handles_;
  int open_ = 0;
  bool is_output_gone_ = false;
};

Result<LogOptions> parse_options(const Arguments& arguments) {
  LogOptions options;
  if (arguments.words().size() != 1) return fail(Code::kInvalid, "logs: which job? Give one");
  options.has_all_ranks = arguments.has("--all-ranks");
  options.is_previous = arguments.has("--previous-attempt");
  options.is_following = arguments.has("--follow");
  if (arguments.has("--rank")) {
    PAWL_TRY(rank, arguments.number("--rank", kRankMax));
    options.rank = rank;
  }
  if (arguments.has("--attempt")) {
    PAWL_TRY(attempt, arguments.number("--attempt", kAttemptMax));
    options.attempt = attempt;
  }
  if (arguments.has("--tail")) {
    PAWL_TRY(tail, arguments.number("--tail", kTailMax));
    options.tail_lines = tail;
  }
  if (options.rank && options.has_all_ranks) {
    return fail(Code::kInvalid, "--rank and --all-ranks exclude each other: give one");
  }
  if (options.attempt && options.is_previous) {
    return fail(Code::kInvalid, "--attempt and --previous-attempt exclude each other: give one");
  }
  return options;
}

// The folder of a `pawl run` is no job, but who has one has its logs at hand.
std::string about_folder(const std::string& word) {
  std::error_code error;
  if (!std::filesystem::exists(word + "/kubeconfig", error)) return "";
  return "logs: " + word +
         " is a folder; while it runs, name the job: `pawl logs JOB --kubeconfig " + word +
         "/kubeconfig`; afterwards read the files in " + word + "/logs";
}

}  // namespace

int logs_command(const std::vector<std::string>& given) {
  std::vector<Flag> flags = cluster_flags();
  for (const Flag& flag :
       {Flag{"--rank", "-r"}, Flag{"--all-ranks", "", false}, Flag{"--attempt"},
        Flag{"--follow", "-f", false}, Flag{"--previous-attempt", "-p", false}, Flag{"--tail"}}) {
    flags.push_back(flag);
  }
  const auto arguments = Arguments::parse(given, flags);
  if (!arguments) return complain(arguments.error(), kExitUsage);
  const auto options = parse_options(*arguments);
  if (!options) return complain(options.error(), kExitUsage);
  if (const std::string why = about_folder(arguments->words().front()); !why.empty())
    return complain({Code::kInvalid, why}, kExitUsage);
  const RealClock clock;
  auto connection = Connection::open(*arguments, clock);
  if (!connection) return complain(connection.error(), kExitNotFound);
  const auto snapshot =
      take_snapshot(*connection, job_name_of(arguments->words().front()), {}, clock.now());
  if (!snapshot) return complain(snapshot.error(), kExitNotFound);
  if (!snapshot->unread.empty())
    return complain({Code::kForbidden, snapshot->unread.front()}, kExitNotFound);
  const auto choice = choose_logs(*snapshot, *options);
  if (!choice) return complain(choice.error(), kExitNotFound);
  if (!choice->notice.empty()) std::cerr << "pawl: " << choice->notice << "\n";
  if (choice->sources.empty()) {
    std::cout << choice->kept << (choice->kept.ends_with('\n') ? "" : "\n");
    return kExitFound;
  }
  Reader reader{*connection, snapshot->job.meta.ns, choice->sources};
  const std::vector<std::string> errors = reader.read(*options);
  for (const std::string& error : errors) std::cerr << "pawl: " << error << "\n";
  return errors.empty() ? kExitFound : kExitNotFound;
}

}  // namespace pawl::cli
