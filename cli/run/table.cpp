#include "cli/run/table.h"

#include <array>

#include "cli/text.h"

namespace pawl::cli {
namespace {

std::string line(const std::array<std::string, 8>& cells) {
  static constexpr std::array<int, 8> kWidths = {11, 7, 13, 9, 9, 8, 10, 0};
  std::string text;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    text += cells[i];
    const auto width = static_cast<std::size_t>(kWidths[i]);
    if (cells[i].size() < width) text.append(width - cells[i].size(), ' ');
    if (width > 0 && cells[i].size() >= width) text += ' ';
  }
  return text;
}

}  // namespace

JobView view_of(const api::TrainingJob& job, const std::optional<api::Progress>& gang_progress) {
  JobView view;
  view.phase = job.status.phase.empty() ? "Starting" : job.status.phase;
  view.ready =
      job.status.ready.empty() ? "0/" + std::to_string(job.spec.replicas) : job.status.ready;
  view.restarts = job.status.restarts.counted + job.status.restarts.free;
  view.created = job.meta.creation_time;
  const auto& own = job.status.progress;
  const bool is_gang_newer =
      gang_progress &&
      (!own || !own->time || (gang_progress->time && *gang_progress->time >= *own->time));
  if (is_gang_newer) {
    view.progress = *gang_progress;
  } else if (own) {
    view.progress = *own;
  }
  view.has_progress = is_gang_newer || own.has_value();
  return view;
}

std::string table_header() {
  return line({"PHASE", "READY", "STEP", "LOSS", "TOK/S", "ETA", "RESTARTS", "AGE"});
}

std::string table_row(const JobView& view, TimePoint now) {
  const api::Progress& progress = view.progress;
  std::string step = "-", loss = "-", rate = "-", eta = "-";
  if (view.has_progress) {
    step = std::to_string(progress.step);
    if (progress.total_steps > 0) step += "/" + std::to_string(progress.total_steps);
    loss = loss_text(progress.loss);
    if (!progress.tokens_per_second.empty()) rate = short_number(progress.tokens_per_second);
    if (progress.eta_seconds) eta = format_seconds(*progress.eta_seconds);
  }
  return line({view.phase, view.ready, step, loss, rate, eta, std::to_string(view.restarts),
               age_text(view.created, now)});
}

std::string change_key(const JobView& view) {
  return view.phase + "|" + view.ready + "|" + std::to_string(view.progress.step) + "|" +
         std::to_string(view.restarts);
}

}  // namespace pawl::cli
