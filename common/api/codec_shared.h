// The parts that TrainingJob and WorkerGroup share, read and written by the codec .cpp files only.
// Pure.
#pragma once

#include "common/api/json_fields.h"
#include "common/api/types.h"

namespace pawl::api {

ObjectMeta read_meta(Fields& object);  // of the whole object: reads its "metadata"
nlohmann::json write_meta(const ObjectMeta& meta);

Progress read_progress(Fields& fields);
nlohmann::json write_progress(const Progress& progress);

CheckpointStatus read_checkpoint(Fields& fields);
nlohmann::json write_checkpoint(const CheckpointStatus& checkpoint);

Failure read_failure(Fields& fields);

// spec.capacity and status.capacity (codec_capacity.cpp).
Capacity read_capacity(Fields& fields);
nlohmann::json write_capacity(const Capacity& capacity);
void read_capacity_status(Fields& fields, CapacityStatus& capacity);
nlohmann::json write_capacity_status(const CapacityStatus& capacity);
// status.placement (codec_placement.cpp).
Scheduling read_scheduling(Fields& fields);
nlohmann::json write_scheduling(const Scheduling& scheduling);
void read_placement(Fields& fields, PlacementStatus& placement);
nlohmann::json write_placement(const PlacementStatus& placement);

// Members named recoveries and goodput, of the launchers' half.
void read_tally(Fields& fields, Tally& tally);
void write_tally(nlohmann::json& object, const Tally& tally);
void read_recoveries(Fields& fields, Recoveries& recoveries);
void write_recoveries(nlohmann::json& object, const Recoveries& recoveries);

}  // namespace pawl::api
