// Random sequences of requests to the API, the same for whoever answers them: a seed gives the same
// steps for ever. A step names what only the answering side knows in braces: {ns}, {uid:pods/a},
// {rv:pods/a} (now), {stale:pods/a} (when it was created), {continue:pods} (of the last list),
// {listrv:pods}. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/json.h"
#include "common/base/random.h"
#include "common/kube/transport.h"

namespace pawl::conformance {

struct Step {
  kube::Method method = kube::Method::kGet;
  std::string target;
  std::string content_type;
  std::string body;
};

// The kinds that sequences are about, in the words of URLs; in the order in which they are listed.
const std::vector<std::string>& sequence_kinds();
// "/api/v1/namespaces/{ns}/pods".
std::string collection_path(const std::string& plural);
// A right object of the kind with this name.
nlohmann::json object_of(const std::string& plural, const std::string& name);

std::vector<Step> generate_steps(std::uint64_t seed, int count);
// The last step of a sequence for each kind: an object that every selector of replayed watches
// matches, after which nothing comes.
std::vector<Step> closing_steps();
inline constexpr char kClosingName[] = "zz-end";

// One line each: "PATCH /api/… {…}".
std::string describe(const Step& step);

}  // namespace pawl::conformance
