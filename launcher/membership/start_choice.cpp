#include "launcher/membership/start_choice.h"

namespace pawl::membership {

bool StartChoice::select() {
  const bool uses_storage = ctx_.keeps_processes() && ctx_.id.has_checkpoints;
  if (!is_selected_ && !uses_storage) is_selected_ = true;
  if (!is_selected_ && !is_selecting_ && (!retry_at_ || ctx_.now.steady >= *retry_at_)) {
    is_selecting_ = true;
    const auto& published = ctx_.record->status.checkpoint;
    ctx_.act(SelectCheckpoint{ctx_.record->status.lineage, published ? published->uri : ""});
  }
  return is_selected_;
}

void StartChoice::on_selected(const CheckpointSelected& selected) {
  is_selecting_ = false;
  if (!selected.error.empty()) {
    ctx_.note("checkpoint_selection_failed", selected.error, true);
    retry_at_ = ctx_.now.steady + ctx_.timings.write_retry_max;
    return;
  }
  is_selected_ = true;
  chosen_ = selected;
  ctx_.note("start_selected", selected.load_uri.empty() ? "from the beginning" : selected.load_uri);
}

void StartChoice::forget() {
  is_selected_ = false;
  chosen_ = {};
}

}  // namespace pawl::membership
