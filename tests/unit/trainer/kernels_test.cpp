// Every kernel of every instruction set against a plain fp64 computation of the same formula.
#include "trainer-runtime/kernels/kernels.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "common/base/random.h"
#include "trainer-runtime/kernels/matmul.h"

using namespace pawl;
using kernels::Index;

namespace {

std::vector<float> random_floats(std::size_t count, std::uint64_t seed, double scale = 1) {
  Random random(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    value = static_cast<float>(scale * (static_cast<double>(random.next() >> 11) * 0x1p-52 - 1));
  }
  return values;
}

// Relative L2 distance of got from want.
double distance(const std::vector<float>& got, const std::vector<double>& want) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    difference += std::pow(static_cast<double>(got[i]) - want[i], 2);
    norm += want[i] * want[i];
  }
  return std::sqrt(difference / (norm + 1e-30));
}

std::size_t at(Index row, Index column, Index columns) {
  return static_cast<std::size_t>(row * columns + column);
}
std::size_t size(Index count) { return static_cast<std::size_t>(count); }

double gelu64(double x) {
  return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

struct Shape {
  Index m, n, k;
};

void check_gemm(const Shape& s, bool is_a_transposed, bool is_b_transposed,
                void (*run)(const kernels::Gemm<float>&)) {
  const auto a = random_floats(size(s.m * s.k), 1), b = random_floats(size(s.k * s.n), 2);
  std::vector<float> c = random_floats(size(s.m * s.n), 3),
                     scratch(size(kernels::gemm_scratch(s.n)));
  std::vector<double> want(c.begin(), c.end());
  kernels::Gemm<float> g{s.m, s.n,      s.k, a.data(), s.k,           1, b.data(), s.n,
                         1,   c.data(), s.n, true,     scratch.data()};
  if (is_a_transposed) g.a_row = 1, g.a_column = s.m;
  if (is_b_transposed) g.b_row = 1, g.b_column = s.k;
  const auto value = [](const std::vector<float>& from, Index i, Index row, Index j, Index column) {
    return static_cast<double>(from[size(i * row + j * column)]);
  };
  for (Index i = 0; i < s.m; ++i) {
    for (Index k = 0; k < s.k; ++k) {
      for (Index j = 0; j < s.n; ++j) {
        want[at(i, j, s.n)] +=
            value(a, i, g.a_row, k, g.a_column) * value(b, k, g.b_row, j, g.b_column);
      }
    }
  }
  run(g);
  INFO(s.m << "x" << s.n << "x" << s.k << " " << is_a_transposed << is_b_transposed);
  CHECK(distance(c, want) < 2e-6);
}

}  // namespace

TEST_CASE("kernels: the matrix product equals the naive one for every shape and transposition",
          "[trainer]") {
  const Shape shapes[] = {{1, 1, 1},     {5, 7, 3},    {12, 32, 16},  {13, 33, 17},
                          {64, 96, 300}, {125, 70, 9}, {250, 65, 257}};
  for (int table = 0; table < kernels::table_count(); ++table) {
    INFO(kernels::table_at(table).name);
    for (const Shape& shape : shapes) {
      for (const int how : {0, 1, 2, 3}) {
        check_gemm(shape, (how & 1) != 0, (how & 2) != 0, kernels::table_at(table).gemm);
      }
    }
  }
}

TEST_CASE("kernels: large products take the library and give the same result", "[trainer]") {
  for (const int how : {0, 1, 2, 3}) {
    check_gemm({500, 500, 500}, (how & 1) != 0, (how & 2) != 0,
               [](const auto& g) { kernels::matmul(g); });
  }
}

TEST_CASE("kernels: layer norm and its gradient equal the formula", "[trainer]") {
  constexpr Index kRows = 9, kColumns = 37;
  const auto x = random_floats(kRows * kColumns, 1, 3), gain = random_floats(kColumns, 2),
             bias = random_floats(kColumns, 3), dy = random_floats(kRows * kColumns, 4);
  std::vector<double> y(kRows * kColumns), dx(kRows * kColumns), dgain(kColumns), dbias(kColumns);
  for (Index row = 0; row < kRows; ++row) {
    double mean = 0, variance = 0, sum = 0, dot = 0;
    for (Index i = 0; i < kColumns; ++i) mean += x[at(row, i, kColumns)] / double{kColumns};
    for (Index i = 0; i < kColumns; ++i)
      variance += std::pow(x[at(row, i, kColumns)] - mean, 2) / double{kColumns};
    const double rstd = 1 / std::sqrt(variance + 1e-5);
    for (Index i = 0; i < kColumns; ++i) {
      const double normal = (x[at(row, i, kColumns)] - mean) * rstd, d = dy[at(row, i, kColumns)];
      y[at(row, i, kColumns)] = normal * double{gain[size(i)]} + double{bias[size(i)]};
      dgain[size(i)] += d * normal;
      dbias[size(i)] += d;
      sum += d * double{gain[size(i)]} / kColumns;
      dot += d * double{gain[size(i)]} * normal / kColumns;
    }
    for (Index i = 0; i < kColumns; ++i) {
      const double normal = (x[at(row, i, kColumns)] - mean) * rstd;
      dx[at(row, i, kColumns)] =
          1 +
          rstd * (double{dy[at(row, i, kColumns)]} * double{gain[size(i)]} - sum - normal * dot);
    }
  }
  for (int table = 0; table < kernels::table_count(); ++table) {
    std::vector<float> out(y.size()), mean(kRows), rstd(kRows), got_dx(y.size(), 1.0F),
        got_dgain(kColumns), got_dbias(kColumns);
    const kernels::LayerNorm<float> norm{kRows,       kColumns,    x.data(),   gain.data(),
                                         bias.data(), mean.data(), rstd.data()};
    kernels::table_at(table).layernorm(norm, out.data());
    kernels::table_at(table).layernorm_backward(norm, dy.data(), got_dx.data(), got_dgain.data(),
                                                got_dbias.data());
    INFO(kernels::table_at(table).name);
    CHECK(distance(out, y) < 1e-6);
    CHECK(distance(got_dx, dx) < 1e-6);
    CHECK(distance(got_dgain, dgain) < 1e-6);
    CHECK(distance(got_dbias, dbias) < 1e-6);
  }
}

TEST_CASE("kernels: gelu and its gradient equal the formula", "[trainer]") {
  constexpr Index kRows = 11, kColumns = 45;
  const auto input = random_floats(kRows * kColumns, 1, 12), bias = random_floats(kColumns, 2),
             d = random_floats(kRows * kColumns, 3);
  std::vector<double> want(input.size()), want_d(input.size()), want_dbias(kColumns);
  for (Index row = 0; row < kRows; ++row) {
    for (Index i = 0; i < kColumns; ++i) {
      const double x = double{input[at(row, i, kColumns)]} + double{bias[size(i)]};
      want[at(row, i, kColumns)] = gelu64(x);
      want_d[at(row, i, kColumns)] =
          double{d[at(row, i, kColumns)]} * (gelu64(x + 1e-5) - gelu64(x - 1e-5)) / 2e-5;
      want_dbias[size(i)] += want_d[at(row, i, kColumns)];
    }
  }
  for (int table = 0; table < kernels::table_count(); ++table) {
    std::vector<float> pre = input, out(pre.size()), got_d = d, got_dbias(kColumns);
    kernels::table_at(table).gelu(kRows, kColumns, bias.data(), pre.data(), out.data());
    kernels::table_at(table).gelu_backward(kRows, kColumns, pre.data(), got_d.data(),
                                           got_dbias.data());
    INFO(kernels::table_at(table).name);
    CHECK(distance(out, want) < 1e-6);
    CHECK(distance(got_d, want_d) < 2e-6);
    CHECK(distance(got_dbias, want_dbias) < 2e-6);
  }
}

TEST_CASE("kernels: causal softmax, its second computation and its gradient equal the formula",
          "[trainer]") {
  constexpr Index kRows = 6, kFirst = 3, kWidth = 12;
  const auto scores = random_floats(kRows * kWidth, 1, 30), d = random_floats(kRows * kWidth, 2);
  const std::vector<float> delta = random_floats(kRows, 3);
  const float scale = 0.25F;
  std::vector<double> p(scores.size()), ds(scores.size());
  for (Index row = 0; row < kRows; ++row) {
    double sum = 0;
    for (Index i = 0; i <= kFirst + row; ++i)
      sum += std::exp(double{scores[at(row, i, kWidth)]} * double{scale});
    for (Index i = 0; i <= kFirst + row; ++i) {
      p[at(row, i, kWidth)] = std::exp(double{scores[at(row, i, kWidth)]} * double{scale}) / sum;
      ds[at(row, i, kWidth)] = p[at(row, i, kWidth)] *
                               (double{d[at(row, i, kWidth)]} - double{delta[size(row)]}) *
                               double{scale};
    }
  }
  for (int table = 0; table < kernels::table_count(); ++table) {
    const auto& run = kernels::table_at(table);
    std::vector<float> log_sum(kRows), first = scores, second = scores, got = d;
    const kernels::ScoreBlock<float> block{kRows, kFirst, kWidth, scale, log_sum.data()};
    run.softmax(block, first.data());
    run.softmax_again(block, second.data());
    run.softmax_backward(block, second.data(), delta.data(), got.data());
    INFO(run.name);
    CHECK(distance(first, p) < 1e-6);
    CHECK(distance(second, p) < 2e-6);
    CHECK(distance(got, ds) < 2e-6);
  }
}

TEST_CASE("kernels: cross entropy gives loss and gradient, also for extreme logits", "[trainer]") {
  constexpr Index kRows = 5, kClasses = 257;
  auto logits = random_floats(kRows * kClasses, 1, 40);
  logits[3] = 5000;  // one row is certain: its loss must stay finite and exact
  const std::vector<std::int32_t> targets{3, 256, 0, 17, 99};
  std::vector<double> want(logits.size());
  double want_loss = 0;
  for (Index row = 0; row < kRows; ++row) {
    const auto* x = logits.data() + row * kClasses;
    const double top = static_cast<double>(*std::max_element(x, x + kClasses));
    double sum = 0;
    for (Index i = 0; i < kClasses; ++i) sum += std::exp(double{x[i]} - top);
    want_loss += std::log(sum) + top - double{x[targets[size(row)]]};
    for (Index i = 0; i < kClasses; ++i)
      want[at(row, i, kClasses)] = 0.5 * std::exp(double{x[i]} - top) / sum;
    want[at(row, targets[size(row)], kClasses)] -= 0.5;
  }
  for (int table = 0; table < kernels::table_count(); ++table) {
    std::vector<float> got = logits;
    const double loss = kernels::table_at(table).cross_entropy(kRows, kClasses, targets.data(),
                                                               0.5F, true, got.data());
    INFO(kernels::table_at(table).name);
    CHECK(std::abs(loss - want_loss) < 1e-5 * want_loss);
    CHECK(distance(got, want) < 1e-6);
  }
}

TEST_CASE("kernels: rows are added, summed and multiplied as their names say", "[trainer]") {
  constexpr Index kRows = 7, kColumns = 19;
  const auto a = random_floats(kRows * kColumns, 1), b = random_floats(kRows * kColumns, 2),
             bias = random_floats(kColumns, 3);
  for (int table = 0; table < kernels::table_count(); ++table) {
    const auto& run = kernels::table_at(table);
    std::vector<float> sums(kColumns, 2.0F), dots(kRows), plain(a.size()), based(a.size()),
        added = b;
    run.column_sums(kRows, kColumns, a.data(), sums.data());
    run.row_dots(kRows, kColumns, a.data(), kColumns, b.data(), kColumns, dots.data());
    run.add_bias(kRows, kColumns, nullptr, bias.data(), plain.data());
    run.add_bias(kRows, kColumns, a.data(), bias.data(), based.data());
    run.add(kRows * kColumns, a.data(), added.data());
    std::vector<double> want_sums(kColumns, 2.0), want_dots(kRows), want_plain, want_based,
        want_added;
    for (Index i = 0; i < kRows * kColumns; ++i) {
      const double left = double{a[size(i)]}, right = double{b[size(i)]};
      want_sums[size(i % kColumns)] += left;
      want_dots[size(i / kColumns)] += left * right;
      want_plain.push_back(double{bias[size(i % kColumns)]});
      want_based.push_back(left + want_plain.back());
      want_added.push_back(left + right);
    }
    CHECK(distance(sums, want_sums) < 1e-6);
    CHECK(distance(dots, want_dots) < 1e-6);
    CHECK(distance(plain, want_plain) < 1e-7);
    CHECK(distance(based, want_based) < 1e-6);
    CHECK(distance(added, want_added) < 1e-6);
  }
}

TEST_CASE("kernels: AdamW equals the formula, and all instruction sets agree bit by bit",
          "[trainer]") {
  constexpr std::size_t kCount = 5003;
  const auto gradient = random_floats(kCount, 1), start = random_floats(kCount, 2),
             moment = random_floats(kCount, 3);
  std::vector<float> square = random_floats(kCount, 4);
  for (float& value : square) value *= value;
  const kernels::AdamW settings{0.01F, 0.9F, 0.95F, 1e-8F, 0.1F, 3.0F, 5.0F, 0.5F};
  std::vector<double> want(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    const double g = double{gradient[i]} * 0.5, m = 0.9 * double{moment[i]} + 0.1 * g,
                 v = 0.95 * double{square[i]} + 0.05 * g * g;
    want[i] = double{start[i]} * (1 - 0.01 * 0.1) - 0.01 * 3 * m / (std::sqrt(5 * v) + 1e-8);
  }
  std::vector<float> first;
  std::vector<double> norms;
  for (int table = 0; table < kernels::table_count(); ++table) {
    std::vector<float> p = start, m = moment, v = square;
    kernels::exact_at(table).adamw(kCount, settings, gradient.data(), p.data(), m.data(), v.data());
    CHECK(distance(p, want) < 1e-6);
    if (table == 0) first = p;
    CHECK(std::memcmp(p.data(), first.data(), kCount * sizeof(float)) == 0);
    norms.push_back(kernels::exact_at(table).squared_norm(kCount, gradient.data()));
    CHECK(norms.back() == norms.front());
  }
  double norm = 0;
  for (const float g : gradient) norm += double{g} * double{g};
  CHECK(std::abs(norms.front() - norm) < 1e-6 * norm);
}

TEST_CASE("kernels: the other optimizers' instruction sets agree bit by bit", "[trainer]") {
  constexpr std::size_t kCount = 5003;
  const auto gradient = random_floats(kCount, 1), start = random_floats(kCount, 2),
             state = random_floats(kCount, 3);
  std::vector<float> square = random_floats(kCount, 4);
  for (float& value : square) value *= value;
  const kernels::AdamW adam{0.01F, 0.9F, 0.95F, 1e-8F, 0.1F, 3.0F, 5.0F, 0.5F};
  std::vector<std::vector<float>> all;
  std::vector<double> norms;
  for (int table = 0; table < kernels::table_count(); ++table) {
    const kernels::ExactTable& exact = kernels::exact_at(table);
    std::vector<float> result;
    const auto keep = [&](const std::vector<float>& p, const std::vector<float>& v) {
      result.insert(result.end(), p.begin(), p.end());
      result.insert(result.end(), v.begin(), v.end());
    };
    for (const bool is_nesterov : {false, true}) {
      for (const float momentum : {0.0F, 0.9F}) {
        std::vector<float> p = start, v = state;
        exact.sgd(kCount, {0.1F, momentum, 0.01F, 0.5F, is_nesterov}, gradient.data(), p.data(),
                  momentum == 0 ? nullptr : v.data());
        keep(p, v);
      }
    }
    std::vector<float> p = start, m = state, v = square;
    exact.lars(kCount, {0.1F, 0.9F, 0.01F, 0.5F}, gradient.data(), p.data(), m.data());
    keep(p, m);
    norms.push_back(
        exact.lamb_moments(kCount, adam, gradient.data(), p.data(), m.data(), v.data()));
    exact.lamb_step(kCount, adam, p.data(), m.data(), v.data());
    keep(p, m);
    all.push_back(std::move(result));
    CHECK(all.back() == all.front());
    CHECK(norms.back() == norms.front());
  }
}
