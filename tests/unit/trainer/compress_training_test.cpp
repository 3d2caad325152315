// Error feedback over many steps: what was sent follows what was to be sent, and a gang that trains
// with it gets where one gets without.
#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <functional>

#include "tests/unit/trainer/compress_samples.h"
#include "trainer-runtime/compress/power_sgd.h"

using namespace pawl;
using namespace pawl::test;
using compress::Kind;

namespace {

constexpr std::size_t kRanks = 4;
constexpr std::array kCompressors = {Kind::kBf16, Kind::kInt8, Kind::kSign, Kind::kTopK};

// Softmax regression on noisy labels: convex, and its least loss is not zero.
constexpr std::size_t kClasses = 8, kFeatures = 24, kSamples = 40;  // samples of a rank
constexpr std::size_t kParameters = kClasses * kFeatures;

struct Samples {
  Floats features;
  std::vector<std::size_t> labels;
};

Samples samples_of(std::size_t rank) {
  Samples samples{gradients(kSamples * kFeatures, 200 + rank, 1), {}};
  const Floats truth = gradients(kParameters, 199, 0);
  for (std::size_t sample = 0; sample < kSamples; ++sample) {
    std::array<double, kClasses> scores{};
    for (std::size_t c = 0; c < kClasses; ++c) {
      for (std::size_t f = 0; f < kFeatures; ++f)
        scores[c] +=
            double{truth[c * kFeatures + f]} * double{samples.features[sample * kFeatures + f]};
    }
    const auto best = std::ranges::max_element(scores) - scores.begin();
    const std::uint64_t noise = keyed_random(201, rank, sample);
    samples.labels.push_back(noise % 4 == 0 ? noise / 4 % kClasses
                                            : static_cast<std::size_t>(best));
  }
  return samples;
}

// With a small weight penalty; adds the gradient of the rank's share of the mean.
double loss_of(const Samples& samples, const Floats& weights, Floats& gradient) {
  constexpr double kShare = 1.0 / (kSamples * kRanks), kPenalty = 1e-3;
  double loss = 0;
  for (std::size_t i = 0; i < kParameters; ++i) {
    loss += kPenalty / 2 / kRanks * double{weights[i]} * double{weights[i]};
    gradient[i] += static_cast<float>(kPenalty / kRanks) * weights[i];
  }
  for (std::size_t sample = 0; sample < kSamples; ++sample) {
    const float* const x = &samples.features[sample * kFeatures];
    std::array<double, kClasses> chances{};
    double total = 0;
    for (std::size_t c = 0; c < kClasses; ++c) {
      const float* const w = &weights[c * kFeatures];
      double score = 0;
      for (std::size_t f = 0; f < kFeatures; ++f) score += double{w[f]} * double{x[f]};
      total += chances[c] = std::exp(score);
    }
    loss -= kShare * std::log(chances[samples.labels[sample]] / total);
    for (std::size_t c = 0; c < kClasses; ++c) {
      const auto slope =
          static_cast<float>(kShare * (chances[c] / total - (c == samples.labels[sample] ? 1 : 0)));
      float* const g = &gradient[c * kFeatures];
      for (std::size_t f = 0; f < kFeatures; ++f) g[f] += slope * x[f];
    }
  }
  return loss;
}

// From the gradients of all ranks their sum, or something like it.
using Sum = std::function<Floats(const std::vector<Floats>&)>;

double trained_loss(const Sum& sum) {
  std::vector<Samples> samples;
  for (std::size_t rank = 0; rank < kRanks; ++rank) samples.push_back(samples_of(rank));
  Floats weights(kParameters);
  double loss = 0;
  for (int step = 0; step < 150; ++step) {
    std::vector<Floats> all(kRanks, Floats(kParameters));
    loss = 0;
    for (std::size_t rank = 0; rank < kRanks; ++rank)
      loss += loss_of(samples[rank], weights, all[rank]);
    const Floats gradient = sum(all);
    for (std::size_t i = 0; i < kParameters; ++i) weights[i] -= 1.5F * gradient[i];
  }
  return loss;
}

Floats plain_sum(const std::vector<Floats>& all) {
  Floats sum(kParameters);
  for (const Floats& one : all)
    for (std::size_t i = 0; i < kParameters; ++i) sum[i] += one[i];
  return sum;
}

double trained_loss_with(Kind kind) {
  const auto compressor =
      compress::make_compressor({.kind = kind, .count_max = kParameters, .share = 0.1});
  std::vector<Floats> residuals(kRanks, Floats(kParameters));
  return trained_loss([&](const std::vector<Floats>& all) {
    Floats sum(kParameters);
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      const Bytes frame = frame_of(*compressor, all[rank], residuals[rank]);
      REQUIRE(compressor->decode_add(frame, sum));
    }
    return sum;
  });
}

double trained_loss_with_power_sgd(int rank) {
  const compress::MatrixShape shape{kClasses, kFeatures, rank};
  compress::PowerSgd power(shape, 203);  // one for all ranks: they would hold the same
  std::vector<Floats> residuals(kRanks, Floats(kParameters));
  return trained_loss([&](const std::vector<Floats>& all) {
    Floats left(shape.left_count()), right(shape.right_count()), sum(kParameters);
    Floats part(left.size());
    for (std::size_t i = 0; i < kRanks; ++i) {
      power.project(all[i], residuals[i], part);
      for (std::size_t k = 0; k < left.size(); ++k) left[k] += part[k];
    }
    const Floats left_sum = left;
    part.resize(right.size());
    for (std::size_t i = 0; i < kRanks; ++i) {
      left = left_sum;
      power.project_back(residuals[i], left, part);
      for (std::size_t k = 0; k < right.size(); ++k) right[k] += part[k];
    }
    power.decode_add(left, right, sum);
    return sum;
  });
}

}  // namespace

TEST_CASE("compress: what was sent follows what was to be sent, and the residual stays bounded",
          "[trainer]") {
  constexpr std::size_t kCount = 2000, kSteps = 400;
  for (const Kind kind : kCompressors) {
    INFO("kind " << static_cast<int>(kind));
    const auto compressor =
        compress::make_compressor({.kind = kind, .count_max = kCount, .share = 0.05});
    Floats residual(kCount);
    std::vector<double> wanted(kCount), sent(kCount);
    double early = 0, late = 0, size = 0;
    for (std::size_t step = 0; step < kSteps; ++step) {
      Floats values = gradients(kCount, 300 + step);
      for (std::size_t i = 0; i < kCount; ++i) {
        values[i] += i % 2 == 0 ? 0.05F : -0.05F;  // and not zero on average
        wanted[i] += double{values[i]};
      }
      Floats decoded(kCount);
      REQUIRE(compressor->decode_add(frame_of(*compressor, values, residual), decoded));
      for (std::size_t i = 0; i < kCount; ++i) sent[i] += double{decoded[i]};
      double& most = step < kSteps / 2 ? early : late;
      most = std::max(most, length(residual));
      size = std::max(size, length(values));
    }
    CHECK(late < 1.2 * early);
    CHECK(late < 40 * size);  // 2 / share, the bound for top-k
    for (std::size_t i = 0; i < kCount; ++i)
      REQUIRE(std::abs(wanted[i] - sent[i] - double{residual[i]}) < 1e-4);
  }
}

TEST_CASE("compress: four ranks that train with it reach the loss of four that do not",
          "[trainer]") {
  const double want = trained_loss(plain_sum);
  CHECK(want < 1.5);  // ln 8 at the start
  for (const Kind kind : kCompressors) {
    INFO("kind " << static_cast<int>(kind));
    CHECK(std::abs(trained_loss_with(kind) / want - 1) < 0.01);
  }
  for (const int rank : {1, 2, 4}) {
    INFO("PowerSGD of rank " << rank);
    CHECK(std::abs(trained_loss_with_power_sgd(rank) / want - 1) < 0.01);
  }
}
