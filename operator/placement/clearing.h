// How much room there would be for members of one shape if some of those that run were gone. A copy
// of what the ledger knows, from which groups of pods are taken out and put back again, in any
// order. Values; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "operator/placement/placement.h"

namespace pawl::placement {

struct HostRange {  // as a domain covers it
  int first = 0, end = 0;
};

class Clearing {
 public:
  struct Use {  // of one group, one pod on one host
    int host = 0;
    std::size_t amounts = 0;  // where what it takes begins
  };
  // Quantities stand one after the other in the order of `needs`, as many as there are needs.
  struct Start {
    std::vector<std::int64_t> needs;       // of one member; all above 0
    std::vector<int> units;                // by the host's number: members that fit there now
    std::vector<bool> is_pristine;         // by host, nothing runs there now
    std::vector<bool> may_host;            // by host; false: no room whoever is gone
    std::vector<std::int64_t> free;        // by host
    std::vector<std::int64_t> amounts;     // of all uses
    std::vector<std::vector<Use>> groups;  // the hosts ascending
  };
  explicit Clearing(Start start) : now_(std::move(start)) {}

  // Of this group the pods on hosts of this range. Returns how many members more fit there, or
  // fewer.
  int take_out(std::size_t group, HostRange range) { return change(group, range, 1); }
  int put_back(std::size_t group, HostRange range) { return -change(group, range, -1); }
  // Members are to lie in slices: each of so many within one of these, which follow each other.
  void set_slices(std::vector<HostRange> domains, int size);
  // Of those that fit on a range, as many in whole slices. True where there are none.
  bool fits_in_slices(HostRange range, int units);
  void close(int host);  // no room there from now on, whoever is gone
  bool touches(std::size_t group, HostRange range) const { return !uses(group, range).empty(); }
  // Members that fit on one host, and on all of a range, now.
  int units(int host) const { return now_.units[static_cast<std::size_t>(host)]; }
  int units(HostRange range) const;
  // Of these hosts; on all others there is none. Of the topology that it was made in.
  Room room(const Topology& topology, HostRange range) const;
  std::span<const Use> uses(std::size_t group, HostRange range) const;

 private:
  int change(std::size_t group, HostRange range, int sign);
  int fitting(std::size_t host) const;
  void count_slices(HostRange range);
  void note(std::size_t host, int units);
  int in_slices(int domain) const {
    return slice_units_[static_cast<std::size_t>(domain)] / slice_size_ * slice_size_;
  }

  Start now_;
  std::vector<HostRange> slice_domains_;
  std::vector<int> slice_units_;      // of each of these
  std::vector<int> slice_domain_of_;  // by host; -1: of none
  int slice_size_ = 1;
  // The range that was asked for last, which is asked for again after each change: what all of its
  // domains have.
  HostRange counted_;
  int counted_units_ = 0;
};

}  // namespace pawl::placement
