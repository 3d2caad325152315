// PowerSGD on a gang: what it sends, what it keeps, and that all ranks hold the same.
#include "trainer-runtime/compress/power_sgd.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <limits>

#include "tests/unit/trainer/compress_samples.h"

using namespace pawl;
using namespace pawl::test;
using compress::Index;
using compress::MatrixShape;
using compress::PowerSgd;

namespace {

// Each rank on the kernels of another processor, in turn.
struct Gang {
  explicit Gang(const MatrixShape& shape, std::size_t size = 4) {
    for (std::size_t i = 0; i < size; ++i) {
      const int table = static_cast<int>(i) % kernels::table_count();
      ranks.emplace_back(shape, 21, compress::kernel_table_at(table));
      residuals.emplace_back(shape.elements());
    }
  }

  // What the ranks decode; they agree, or the test ends.
  Floats step(const std::vector<Floats>& values) {
    const MatrixShape& shape = ranks.front().shape();
    std::vector<Floats> lefts, rights;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      lefts.emplace_back(shape.left_count());
      ranks[i].project(values[i], residuals[i], lefts[i]);
    }
    sum(lefts);
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      rights.emplace_back(shape.right_count());
      ranks[i].project_back(residuals[i], lefts[i], rights[i]);
    }
    sum(rights);
    Floats decoded(shape.elements());
    ranks[0].decode_add(lefts[0], rights[0], decoded);
    for (std::size_t i = 1; i < ranks.size(); ++i) {
      Floats other(shape.elements());
      ranks[i].decode_add(lefts[i], rights[i], other);
      REQUIRE(is_equal(decoded, other));
      REQUIRE(is_equal(ranks[0].basis(), ranks[i].basis()));
    }
    return decoded;
  }

  std::vector<PowerSgd> ranks;
  std::vector<Floats> residuals;

 private:
  // In rank order, for all, as an all-reduce would.
  static void sum(std::vector<Floats>& vectors) {
    Floats total = vectors.front();
    for (std::size_t i = 1; i < vectors.size(); ++i) {
      for (std::size_t k = 0; k < total.size(); ++k) total[k] += vectors[i][k];
    }
    for (Floats& vector : vectors) vector = total;
  }
};

// left · right, where `left` depends on the seed alone, and so is the same for all ranks.
Floats low_rank(const MatrixShape& shape, std::uint64_t seed, std::uint64_t rank_seed) {
  const auto rank = static_cast<std::size_t>(shape.rank);
  const auto rows = static_cast<std::size_t>(shape.rows);
  const auto columns = static_cast<std::size_t>(shape.columns);
  const Floats left = gradients(rows * rank, seed, 1);
  const Floats right = gradients(columns * rank, rank_seed, 1);
  Floats matrix(rows * columns);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < columns; ++column) {
      double sum = 0;
      for (std::size_t k = 0; k < rank; ++k)
        sum += double{left[row * rank + k]} * double{right[k * columns + column]};
      matrix[row * columns + column] = static_cast<float>(sum);
    }
  }
  return matrix;
}

Floats sum_of(const std::vector<Floats>& all) {
  Floats sum(all.front().size());
  for (std::size_t i = 0; i < sum.size(); ++i) {
    double total = 0;
    for (const Floats& one : all) total += double{one[i]};
    sum[i] = static_cast<float>(total);
  }
  return sum;
}

double distance(const Floats& got, const Floats& want) {
  Floats apart = got;
  for (std::size_t i = 0; i < want.size(); ++i) apart[i] -= want[i];
  return length(apart) / length(want);
}

std::vector<Floats> for_ranks(std::size_t count, std::uint64_t seed) {
  std::vector<Floats> values;
  for (std::uint64_t i = 0; i < 4; ++i) values.push_back(gradients(count, seed + i));
  return values;
}

}  // namespace

TEST_CASE("power_sgd: a matrix of no higher rank comes out exact to rounding after two steps",
          "[trainer]") {
  for (int rank = 1; rank <= 4; ++rank) {
    for (const MatrixShape& shape :
         {MatrixShape{37, 61, rank}, {5, 130, rank}, {130, 5, rank}, {1, 9, rank}, {9, 1, rank}}) {
      for (const float size : {1.0F, 1e-30F, 1e15F}) {
        INFO(shape.rows << " x " << shape.columns << ", rank " << rank << ", size " << size);
        Gang gang(shape);
        std::vector<Floats> values;
        for (std::uint64_t i = 0; i < 4; ++i) values.push_back(low_rank(shape, 22, 23 + i));
        for (Floats& one : values)
          for (float& value : one) value *= size;
        const Floats want = sum_of(values);
        gang.step(values);
        CHECK(distance(gang.step(values), want) < 2e-5);
        // Single columns of several ranks have no direction in common but that of their sum.
        for (std::size_t i = 0; shape.columns >= rank && i < 4; ++i)
          CHECK(length(gang.residuals[i]) < 2e-5 * length(values[i]));
      }
    }
  }
}

TEST_CASE("power_sgd: what is decoded and all residuals make up all values and all old residuals",
          "[trainer]") {
  const MatrixShape shape{40, 50, 2};
  Gang gang(shape);
  for (std::uint64_t step = 0; step < 5; ++step) {
    std::vector<Floats> all = for_ranks(shape.elements(), 100 * step);
    const std::vector<Floats> values = all;
    all.insert(all.end(), gang.residuals.begin(), gang.residuals.end());
    std::vector<Floats> after{gang.step(values)};
    after.insert(after.end(), gang.residuals.begin(), gang.residuals.end());
    CHECK(distance(sum_of(after), sum_of(all)) < 1e-6);
  }
}

TEST_CASE("power_sgd: every instruction set computes the same factors and residuals", "[trainer]") {
  for (int rank = 1; rank <= 4; ++rank) {
    const MatrixShape shape{23, 5003, rank};
    const Floats values = gradients(shape.elements(), 31);
    std::vector<Floats> lefts, rights, residuals;
    for (int table = 0; table < kernels::table_count(); ++table) {
      PowerSgd one(shape, 32, compress::kernel_table_at(table));
      Floats left(shape.left_count()), right(shape.right_count());
      Floats residual = gradients(shape.elements(), 33);
      one.project(values, residual, left);
      one.project_back(residual, left, right);
      lefts.push_back(left);
      rights.push_back(right);
      residuals.push_back(residual);
      CHECK(is_equal(left, lefts.front()));
      CHECK(is_equal(right, rights.front()));
      CHECK(is_equal(residual, residuals.front()));
    }
  }
}

TEST_CASE("power_sgd: what is not finite on one rank is seen by all, and not in the next step",
          "[trainer]") {
  const MatrixShape shape{20, 30, 2};
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), 3e38F, -std::numeric_limits<float>::infinity()}) {
    Gang gang(shape);
    gang.step(for_ranks(shape.elements(), 41));
    std::vector<Floats> values = for_ranks(shape.elements(), 42);
    // 3e38 twice: finite by themselves, but not their sum.
    values[2][7] = bad;
    gang.residuals[2][7] = bad > 0 ? bad : 0;
    const std::span<float> basis = gang.ranks[0].basis();
    const Floats before(basis.begin(), basis.end());
    CHECK(has_not_finite(gang.step(values)));
    CHECK(is_equal(gang.ranks[0].basis(), before));
    for (const Floats& residual : gang.residuals) CHECK_FALSE(has_not_finite(residual));
    CHECK_FALSE(has_not_finite(gang.step(for_ranks(shape.elements(), 43))));
  }
}

TEST_CASE("power_sgd: factors that are too large for numbers that are not", "[trainer]") {
  const MatrixShape shape{4, 1, 1};
  Gang gang(shape);
  std::vector<Floats> values(4, Floats(shape.elements()));
  values[1] = Floats(shape.elements(), 3e38F);
  CHECK(has_not_finite(gang.step(values)));
  for (const Floats& residual : gang.residuals) CHECK_FALSE(has_not_finite(residual));
}

TEST_CASE("power_sgd: directions that zeros have lost are found again", "[trainer]") {
  const MatrixShape shape{30, 40, 3};
  Gang gang(shape);
  const std::vector<Floats> zeros(4, Floats(shape.elements()));
  for (int step = 0; step < 3; ++step) CHECK(gang.step(zeros) == zeros[0]);
  std::vector<Floats> values;
  for (std::uint64_t i = 0; i < 4; ++i) values.push_back(low_rank({30, 40, 1}, 51, 52 + i));
  for (int step = 0; step < 3; ++step) gang.step(values);
  for (std::uint64_t i = 0; i < 4; ++i) values[i] = low_rank(shape, 53, 54 + i);
  gang.step(values);
  CHECK(distance(gang.step(values), sum_of(values)) < 2e-5);
}

TEST_CASE("power_sgd: goes on from a basis and a residual that were saved", "[trainer]") {
  const MatrixShape shape{30, 40, 3};
  Gang first(shape), second(shape);
  first.step(for_ranks(shape.elements(), 61));
  for (std::size_t i = 0; i < 4; ++i)
    std::ranges::copy(first.ranks[i].basis(), second.ranks[i].basis().begin());
  second.residuals = first.residuals;
  const std::vector<Floats> values = for_ranks(shape.elements(), 62);
  CHECK(is_equal(first.step(values), second.step(values)));
}

TEST_CASE("power_sgd: the residual of ranks that never agree stays bounded", "[trainer]") {
  const MatrixShape shape{24, 32, 2};
  Gang gang(shape);
  const std::vector<Floats> values = for_ranks(shape.elements(), 71);
  double early = 0, late = 0;
  for (int step = 0; step < 200; ++step) {
    gang.step(values);
    for (std::size_t i = 0; i < 4; ++i) {
      double& most = step < 100 ? early : late;
      most = std::max(most, length(gang.residuals[i]) / length(values[i]));
    }
  }
  CHECK(late < 1.2 * early);
  CHECK(late < 24 / 2 * 2);
}

TEST_CASE("power_sgd: is worth it where ten times less is sent", "[trainer]") {
  CHECK(MatrixShape{768, 3072, 4}.is_worth());
  CHECK(MatrixShape{20, 20, 1}.is_worth());
  CHECK_FALSE(MatrixShape{19, 20, 1}.is_worth());
  CHECK_FALSE(MatrixShape{1, 100000, 1}.is_worth());
}
