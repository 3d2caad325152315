// What a cloud tells its own machines of their end, by the metadata service on each of them: the
// earliest word there is, seconds before anything in Kubernetes knows. The protocols of AWS
// (docs.aws.amazon.com, "Spot Instance interruption notices", IMDSv2), Google Cloud
// (cloud.google.com, "Preemptible VM", "Host maintenance event") and Azure (learn.microsoft.com,
// "Scheduled Events"), above a call that somebody else makes. One thread.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "common/base/result.h"

namespace pawl::launcher {

struct MetadataRequest {
  std::string method, target;
  std::map<std::string, std::string> headers;
};
struct MetadataReply {
  int status = 0;
  std::string body;
  std::string flavor;  // the header Metadata-Flavor
};
using MetadataCall = std::function<Result<MetadataReply>(const MetadataRequest&)>;

class Cloud {
 public:
  virtual ~Cloud() = default;
  virtual const char* name() const = 0;
  // One sentence once this machine's end is announced. An answer that fails says nothing.
  virtual std::optional<std::string> notice() = 0;
};

// Asks as each of them wants to be asked; null if nobody answers as one of them would.
std::unique_ptr<Cloud> find_cloud(const MetadataCall& call);

}  // namespace pawl::launcher
