#include "trainer-runtime/optim/noise_scale.h"

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <numbers>

#include "common/base/random.h"

using namespace pawl;

namespace {

constexpr std::size_t kParameters = 50;
using Gradient = std::array<double, kParameters>;

double square_of(const Gradient& gradient) {
  double sum = 0;
  for (const double value : gradient) sum += value * value;
  return sum;
}

// Gradients of samples with a known mean, and a known variance of each parameter.
class Samples {
 public:
  Samples(double mean, double deviation) : mean_(mean), deviation_(deviation) {}
  double noise_scale() const { return deviation_ * deviation_ / (mean_ * mean_); }

  void step(optim::NoiseScale& scale, int micro, int passes) {
    Gradient whole{};
    double micro_square = 0;
    for (int pass = 0; pass < passes; ++pass) {
      Gradient part{};
      for (int sample = 0; sample < micro; ++sample) {
        for (double& value : part) value += (mean_ + deviation_ * normal()) / micro;
      }
      micro_square += square_of(part) / passes;
      for (std::size_t i = 0; i < kParameters; ++i) whole[i] += part[i] / passes;
    }
    scale.add(micro_square, square_of(whole));
  }

 private:
  double uniform() { return (static_cast<double>(random_.next() >> 11) + 1) * 0x1p-53; }
  double normal() {  // Box and Muller
    return std::sqrt(-2 * std::log(uniform())) * std::cos(2 * std::numbers::pi * uniform());
  }
  double mean_, deviation_;
  Random random_{3};
};

}  // namespace

TEST_CASE("noise scale: of gradients whose mean and variance are known", "[trainer]") {
  for (const double deviation : {0.5, 2.0, 4.0}) {
    for (const int micro : {1, 4}) {
      Samples samples(1, deviation);
      optim::NoiseScale scale(micro, micro * 8);
      for (int step = 0; step < 400; ++step) samples.step(scale, micro, 8);
      INFO(deviation << " " << micro);
      REQUIRE(scale.samples());
      CHECK(std::abs(*scale.samples() / samples.noise_scale() - 1) < 0.1);
    }
  }
}

TEST_CASE("noise scale: follows the run", "[trainer]") {
  optim::NoiseScale scale(2, 16);
  Samples before(1, 1), after(1, 8);
  for (int step = 0; step < 500; ++step) before.step(scale, 2, 8);
  for (int step = 0; step < 500; ++step) after.step(scale, 2, 8);
  REQUIRE(scale.samples());
  CHECK(std::abs(*scale.samples() / after.noise_scale() - 1) < 0.15);
}

TEST_CASE("noise scale: none is told where there is none to tell", "[trainer]") {
  optim::NoiseScale few(1, 8);
  for (int step = 0; step < 9; ++step) few.add(2, 1.2);
  CHECK_FALSE(few.samples());
  few.add(2, 1.2);
  CHECK(few.samples());
  optim::NoiseScale single(8, 8);
  for (int step = 0; step < 20; ++step) single.add(2, 2);
  CHECK_FALSE(single.samples());
  optim::NoiseScale hidden(1, 8);  // all of the step's gradient is what is left of the noise
  for (int step = 0; step < 20; ++step) hidden.add(8, 0.9);
  CHECK_FALSE(hidden.samples());
}
