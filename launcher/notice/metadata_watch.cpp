#include "launcher/notice/metadata_watch.h"

#include <array>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <charconv>
#include <optional>
#include <utility>

namespace pawl::launcher {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using std::chrono::milliseconds;

constexpr char kScheme[] = "http://";
constexpr std::size_t kBodyBytesMax = 256 << 10;

struct Place {
  std::string host, port = "80";
};

std::optional<Place> place_of(const std::string& url) {
  if (!url.starts_with(kScheme)) return std::nullopt;
  Place place{url.substr(sizeof kScheme - 1)};
  if (const auto slash = place.host.find('/'); slash != std::string::npos) place.host.resize(slash);
  const auto bracket = place.host.find(']');
  const auto colon = place.host.rfind(':');
  const bool has_port =
      colon != std::string::npos && (bracket == std::string::npos || colon > bracket);
  if (has_port) {
    place.port = place.host.substr(colon + 1);
    place.host.resize(colon);
  }
  if (place.host.starts_with('[') && place.host.ends_with(']'))
    place.host = place.host.substr(1, place.host.size() - 2);
  return place.host.empty() ? std::nullopt : std::optional{place};
}

// Resolving could hang on a name server for longer than the call may take: an address only.
std::optional<asio::ip::tcp::endpoint> endpoint_of(const Place& place) {
  boost::system::error_code error;
  const auto address = asio::ip::make_address(place.host, error);
  constexpr int kPortMax = 65'535;
  int port = 0;
  const char* end = place.port.data() + place.port.size();
  const auto [stop, wrong] = std::from_chars(place.port.data(), end, port);
  if (error || wrong != std::errc{} || stop != end || port < 1 || port > kPortMax)
    return std::nullopt;
  return asio::ip::tcp::endpoint{address, static_cast<std::uint16_t>(port)};
}

http::verb verb_of(const std::string& method) {
  return method == "PUT" ? http::verb::put : http::verb::get;
}

// One exchange: its steps follow each other until one fails or the time is over.
struct Exchange {
  asio::io_context context;
  beast::tcp_stream stream{context};
  beast::flat_buffer buffer;
  http::request<http::empty_body> request;
  http::response_parser<http::string_body> parser;
  boost::system::error_code error = asio::error::timed_out;

  void run(const asio::ip::tcp::endpoint& endpoint, milliseconds time) {
    parser.body_limit(kBodyBytesMax);
    stream.expires_after(time);
    stream.async_connect(endpoint, [this](boost::system::error_code connected) {
      if (fails(connected)) return;
      http::async_write(stream, request, [this](boost::system::error_code written, std::size_t) {
        if (fails(written)) return;
        http::async_read(stream, buffer, parser,
                         [this](boost::system::error_code read, std::size_t) { fails(read); });
      });
    });
    context.run();
  }

  bool fails(boost::system::error_code outcome) {
    error = outcome;
    return static_cast<bool>(outcome);
  }
};

}  // namespace

Result<MetadataReply> call_metadata(const MetadataOptions& options,
                                    const MetadataRequest& request) {
  const auto place = place_of(options.url);
  const auto endpoint = place ? endpoint_of(*place) : std::nullopt;
  if (!endpoint) {
    return fail(Code::kInvalid,
                "the metadata service must be http://ADDRESS or http://ADDRESS:PORT, not \"" +
                    options.url + "\"");
  }
  Exchange exchange;
  exchange.request = {verb_of(request.method), request.target, 11};
  exchange.request.set(http::field::host, options.url.substr(sizeof kScheme - 1));
  exchange.request.set(http::field::connection, "close");
  for (const auto& [name, value] : request.headers) exchange.request.set(name, value);
  exchange.request.prepare_payload();
  exchange.run(*endpoint, options.call_max);
  if (exchange.error) return fail(Code::kUnavailable, exchange.error.message());
  auto& message = exchange.parser.get();
  return MetadataReply{static_cast<int>(message.result_int()), std::move(message.body()),
                       std::string{message["Metadata-Flavor"]}};
}

MetadataWatch::MetadataWatch(MetadataOptions options, Log& log,
                             std::function<void(const std::string&)> on_notice)
    : options_(std::move(options)), log_(log), on_notice_(std::move(on_notice)) {
  thread_ = std::thread([this] { run(); });
}

MetadataWatch::~MetadataWatch() {
  {
    const std::lock_guard lock(mutex_);
    must_stop_ = true;
  }
  stopped_.notify_all();
  thread_.join();
}

bool MetadataWatch::sleep(milliseconds time) {
  std::unique_lock lock(mutex_);
  return !stopped_.wait_for(lock, time, [this] { return must_stop_; });
}

void MetadataWatch::run() {
  // A pod's network may come up later than its containers.
  constexpr std::array kTries{milliseconds{0}, milliseconds{5'000}, milliseconds{30'000},
                              milliseconds{120'000}};
  const MetadataCall call = [this](const MetadataRequest& request) {
    return call_metadata(options_, request);
  };
  std::unique_ptr<Cloud> cloud;
  for (const milliseconds wait : kTries) {
    if (!sleep(wait)) return;
    if ((cloud = find_cloud(call))) break;
  }
  if (!cloud) {
    const auto asked = call({"GET", "/", {}});
    return log_.info("no_metadata_service",
                     {{"url", options_.url},
                      {"why", asked ? "nobody answers as a cloud does" : asked.error().message}});
  }
  log_.info("metadata_service", {{"cloud", cloud->name()}});
  do {
    if (const auto what = cloud->notice()) {
      log_.warning("interruption_notice", {{"what", *what}});
      return on_notice_(*what);
    }
  } while (sleep(options_.every));
}

}  // namespace pawl::launcher
