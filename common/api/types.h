// Every kind as a value. What needs one kind alone includes its own header.
#pragma once

#include "common/api/meta.h"
#include "common/api/pod_view.h"
#include "common/api/report.h"
#include "common/api/tally.h"
#include "common/api/training_job.h"
#include "common/api/training_queue.h"
#include "common/api/worker_group.h"
