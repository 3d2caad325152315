#include "operator/admission/cover.h"

#include <algorithm>
#include <utility>

namespace pawl::admission {
namespace {

using placement::Clearing;
using placement::HostRange;

__extension__ using Wide = __int128;

class CoverSearch {
 public:
  CoverSearch(Clearing& clearing, HostRange range, std::span<const Priced> offered, int units)
      : clearing_(clearing), range_(range), wanted_(units), now_(clearing.units(range)) {
    weigh(offered);
  }

  std::optional<Cover> run(int& steps) {
    if (is_enough()) return Cover{};
    if (now_ + (rest_.empty() ? 0 : rest_.front()) < wanted_ || !take_cheapest())
      return std::nullopt;
    steps_ = steps;
    branch(0, 0);
    steps = steps_;
    std::ranges::sort(best_.groups);
    return best_;
  }

 private:
  struct Item {
    Priced priced;
    int most = 0;  // that it can add, whoever else is gone
  };

  // A host gives no more than what it holds when all have left it.
  void weigh(std::span<const Priced> offered) {
    std::vector<int> before;
    for (const Priced& one : offered) before.push_back(held_on_hosts_of(one.group));
    for (const Priced& one : offered) clearing_.take_out(one.group, range_);
    for (std::size_t i = 0; i < offered.size(); ++i) {
      const int most = held_on_hosts_of(offered[i].group) - before[i];
      if (most > 0) items_.push_back({offered[i], most});
    }
    for (const Priced& one : offered) clearing_.put_back(one.group, range_);
    std::ranges::stable_sort(items_, [](const Item& one, const Item& other) {
      return Wide{one.priced.price} * other.most < Wide{other.priced.price} * one.most;
    });
    rest_.assign(items_.size() + 1, 0);
    for (std::size_t i = items_.size(); i-- > 0;) rest_[i] = rest_[i + 1] + items_[i].most;
  }

  int held_on_hosts_of(std::size_t group) const {
    int units = 0, last = -1;
    for (const Clearing::Use& use : clearing_.uses(group, range_)) {
      if (use.host != last) units += clearing_.units(use.host);
      last = use.host;
    }
    return units;
  }

  bool is_enough() const { return now_ >= wanted_ && clearing_.fits_in_slices(range_, wanted_); }

  void take(std::size_t item) {
    now_ += clearing_.take_out(items_[item].priced.group, range_);
    taken_.push_back(item);
  }

  void put_back(std::size_t item) {
    now_ -= clearing_.put_back(items_[item].priced.group, range_);
    std::erase(taken_, item);
  }

  void note_best(std::int64_t price) {
    best_ = {.price = price};
    for (const std::size_t item : taken_) best_.groups.push_back(items_[item].priced.group);
  }

  // False: all together are not enough.
  bool take_cheapest() {
    for (std::size_t item = 0; item < items_.size() && !is_enough(); ++item) take(item);
    const bool is_found = is_enough();
    std::vector<std::size_t> dear = taken_;
    std::ranges::stable_sort(dear, [&](std::size_t one, std::size_t other) {
      return items_[one].priced.price > items_[other].priced.price;
    });
    for (const std::size_t item : dear) {
      if (!is_found) break;
      put_back(item);
      if (!is_enough()) take(item);
    }
    std::int64_t price = 0;
    for (const std::size_t item : taken_) price += items_[item].priced.price;
    if (is_found) note_best(price);
    for (const std::size_t item : std::vector<std::size_t>(taken_)) put_back(item);
    return is_found;
  }

  // What it costs at least to have as many as are wanted, of the items from here on.
  bool may_be_better(std::size_t item, std::int64_t price) const {
    int lacking = wanted_ - now_;
    for (; item < items_.size() && items_[item].most <= lacking; ++item) {
      lacking -= items_[item].most;
      price += items_[item].priced.price;
      if (price >= best_.price) return false;
    }
    if (lacking <= 0) return price < best_.price;
    if (item == items_.size()) return false;
    const Wide part = Wide{items_[item].priced.price} * lacking;
    const Wide most = items_[item].most;
    return Wide{price} * most + part <= Wide{best_.price - 1} * most;
  }

  void branch(std::size_t item, std::int64_t price) {
    if (is_enough()) {
      if (price < best_.price) note_best(price);
      return;
    }
    if (item == items_.size() || now_ + rest_[item] < wanted_) return;
    if (steps_ == 0 || !may_be_better(item, price)) return;
    --steps_;
    take(item);
    branch(item + 1, price + items_[item].priced.price);
    put_back(item);
    branch(item + 1, price);
  }

  Clearing& clearing_;
  const HostRange range_;
  const int wanted_;
  int now_;
  int steps_ = 0;
  std::vector<Item> items_;         // by price per member
  std::vector<int> rest_;           // what those from here on may add at most
  std::vector<std::size_t> taken_;  // items
  Cover best_;
};

}  // namespace

std::optional<Cover> cheapest_cover(Clearing& clearing, HostRange range,
                                    std::span<const Priced> offered, int units, int& steps) {
  return CoverSearch(clearing, range, offered, units).run(steps);
}

}  // namespace pawl::admission
