#include "operator/controller/role.h"

#include <sstream>
#include <utility>

namespace pawl::controller {
namespace {

constexpr std::chrono::seconds kCatchUpMax{5};  // then everything is listed anew

}  // namespace

std::string encode_views(const Views& views) {
  std::string text;
  for (const std::string& view : views) {
    text += (text.empty() ? "" : "/") + (view.empty() ? "-" : view);
  }
  return text;
}

std::optional<Views> decode_views(const std::string& text) {
  Views views;
  std::istringstream in(text);
  for (std::string& view : views) {
    if (!std::getline(in, view, '/') || view.empty()) return std::nullopt;
    if (view == "-") view.clear();
    if (view.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  }
  if (!in.eof()) return std::nullopt;
  return views;
}

Role::Step Role::next(std::uint64_t epoch, bool is_leading, const std::string& handover,
                      bool is_caught_up, SteadyPoint now) {
  if (std::exchange(epoch_, epoch) != epoch) {
    const bool has_led = std::exchange(is_leading_, is_leading);
    catch_up_end_ = SteadyPoint::max();
    if (!is_leading) return Step::kFollow;
    const auto views = decode_views(handover);
    if (has_led || !views) return Step::kLeadAnew;
    inherited_ = *views;
    catch_up_end_ = now + kCatchUpMax;
    return Step::kLead;
  }
  if (is_caught_up) catch_up_end_ = SteadyPoint::max();
  if (now < catch_up_end_) return Step::kStay;
  catch_up_end_ = SteadyPoint::max();
  return Step::kLeadAnew;
}

}  // namespace pawl::controller
