// Whom a gang that waits may send away, and whether that is enough: room for it in one domain
// (victims.h), and quota. Elastic gangs give up what they can do without before anybody leaves: on
// the hosts where the other one will be, and as much more as its quota takes. Pure; deterministic.
//
// Who has a higher priority may send away gangs of its own queue (or, without a queue, others
// without one) that have a lower one, if the queue's policy and its PriorityClass say so. Whose
// queue need not borrow for it may send away gangs of queues that have borrowed, until those use no
// more than their own. Both are looked at in the end: if all that are chosen are gone, and one of
// them need not have been borrowing any more, it stays, and the choice is made again. So nobody
// takes back what was taken from it: a lower priority sends no higher one away, and who would have
// to borrow sends nobody of another queue away.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "operator/admission/gang.h"
#include "operator/admission/victims.h"

namespace pawl::admission {

struct Spare {            // a pod that its gang goes on without
  std::string pod, host;  // its key in the ledger
  bool operator==(const Spare&) const = default;
};

struct Tenant {    // a gang that has room
  std::string id;  // of its job: the owner of its pods in the ledger, and of its charge
  std::int64_t priority = 0;
  std::int64_t lost = 0;      // device-seconds that it would have to do again
  std::string queue;          // "": of none
  bool is_leaving = false;    // its room comes back in any case
  bool is_sent_away = false;  // and somebody waits for that
  std::optional<TimePoint> protected_until = std::nullopt;
  std::vector<Spare> spare = {};
  placement::Resources each = {};  // of its quota, what each of those takes
  bool is_shrinking = false;       // they go in any case, and no others
};

struct Eviction {
  struct Victim {
    std::string id;
    bool is_reclaimed = false;  // its queue has borrowed what that of the other one takes back
    std::vector<Spare> gives_up = {};  // these alone, and it stays; none: it leaves
    bool operator==(const Victim&) const = default;
  };
  std::vector<Victim> victims;  // by id; nobody: those that leave in any case are enough
  std::set<std::string> hosts;  // where the gang will be
};

class Court {
 public:
  // `tenants` by id.
  Court(placement::Ledger& ledger, const Quotas& quotas, std::vector<Tenant> tenants,
        TimePoint now);

  // Nothing: it needs nobody to leave, or nobody it may send away is enough. `closed`: hosts that
  // are kept for others.
  std::optional<Eviction> judge(const Gang& gang, const std::set<std::string>& closed);
  // Once all have left that do, these hosts hold it, and there is quota for it.
  bool holds(const Gang& gang, const std::set<std::string>& hosts);
  // From now on it counts as gone, or what it gives up does.
  void send_away(const Eviction::Victim& victim);
  // From now on these hosts and its quota are for this gang alone.
  void reserve(const Gang& gang, const std::set<std::string>& hosts);
  int searches() const { return searches_; }  // so far; each takes its time
  // When the first of those may be sent away that were left alone because they have run for too
  // short a time.
  std::optional<TimePoint> again() const { return again_; }

 private:
  using Set = std::set<std::size_t>;  // of parts: of each tenant what is spare, and the rest
  static std::size_t spare_of(std::size_t tenant) { return 2 * tenant; }
  static std::size_t rest_of(std::size_t tenant) { return 2 * tenant + 1; }
  static std::set<std::size_t> tenants_of(const Set& parts);
  std::optional<bool> right_over(const Gang& gang, const Tenant& tenant,
                                 const Quotas& quotas) const;
  bool may_reclaim(const Gang& gang, const Tenant& tenant, const Quotas& quotas) const;
  bool is_protected(const Tenant& tenant);
  placement::Resources left_of(std::size_t tenant, const Set& gone) const;
  void charge(Quotas& quotas, std::size_t tenant, const Set& gone) const;
  Set candidates_for(const Gang& gang);
  // `gone`: besides those that leave.
  std::optional<Set> quota_victims(const Gang& gang, const Set& candidates, const Set& gone) const;
  std::optional<Set> room_victims(const Gang& gang, const Set& candidates, const Set& gone,
                                  placement::HostRange& domain);
  struct Choice {
    Set victims;
    placement::HostRange domain;
  };
  std::optional<Choice> choose(const Gang& gang, const Set& candidates);
  std::optional<std::size_t> without_right(const Gang& gang, const Set& victims,
                                           Eviction& eviction) const;
  void keep_unneeded(const Gang& gang, Eviction& eviction) const;
  std::optional<placement::Placement> placed_in(const Gang& gang, const Set& gone,
                                                placement::HostRange range);
  std::set<std::string> names(const placement::Placement& placed);
  void close(const Gang& gang, const std::set<std::string>& hosts);
  bool is_owed(const Gang& gang) const;
  std::vector<std::pair<std::int64_t, std::pair<std::int64_t, std::size_t>>> price_of(
      const Set& victims) const;

  placement::Ledger& ledger_;
  Quotas now_used_, quotas_;  // the latter without those that leave
  std::vector<Tenant> tenants_;
  Set leaving_;
  const TimePoint now_;
  // By the host's number: for those before, and for the gang that is looked at.
  std::vector<bool> is_reserved_, is_closed_;
  std::optional<TimePoint> again_;
  int searches_ = 0;
};

}  // namespace pawl::admission
