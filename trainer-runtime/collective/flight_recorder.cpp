#include "trainer-runtime/collective/flight_recorder.h"

#include <algorithm>

namespace pawl::collective {

Record* FlightRecorder::find(std::uint64_t sequence) {
  Record& record = at(sequence);
  return record.sequence == sequence ? &record : nullptr;
}

void FlightRecorder::begin(std::uint64_t sequence, SteadyPoint now) {
  if (Record* record = find(sequence)) record->begun = now;
}

void FlightRecorder::end(std::uint64_t sequence, SteadyPoint now) {
  if (Record* record = find(sequence)) record->ended = now;
}

void FlightRecorder::fail(std::uint64_t sequence, std::uint64_t exchanges) {
  if (Record* record = find(sequence)) record->exchanges = exchanges;
}

std::size_t FlightRecorder::copy(std::uint64_t after, std::span<Record> into) const {
  std::uint64_t newest = 0;
  for (const Record& record : records_) newest = std::max(newest, record.sequence);
  const std::uint64_t oldest = newest > kRecords ? newest - kRecords + 1 : 1;
  std::size_t count = 0;
  for (std::uint64_t sequence = std::max(after + 1, oldest);
       sequence <= newest && count < into.size(); ++sequence)
    into[count++] = records_[sequence % kRecords];
  return count;
}

}  // namespace pawl::collective
