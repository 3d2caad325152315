// The blocked matrix product of one instruction set; included by isa.cpp only, inside its
// namespace.
//
// b is packed into panels of kPanel columns, a is read in place where its rows are contiguous and
// packed otherwise. The micro kernel keeps kTileRows × kPanel sums in registers.
#pragma once

constexpr Index kLanesOf(Index element_bytes) { return PAWL_VECTOR_BYTES / element_bytes; }
constexpr int kTileRows = PAWL_VECTOR_BYTES == 64 ? 12 : 6;

template <typename T>
struct Vector {
  typedef T Type __attribute__((vector_size(PAWL_VECTOR_BYTES), aligned(sizeof(T)), may_alias));
};

template <typename T>
struct Tile {
  Index k;
  const T* a;
  Index a_row, a_column;
  const T* panel;
  T* c;
  Index c_row;
  bool is_adding;
};

template <typename T, int kRows>
void tile_product(const Tile<T>& t) {
  using V = typename Vector<T>::Type;
  constexpr Index kLanes = kLanesOf(sizeof(T));
  V sums[kRows][2];
  for (int i = 0; i < kRows; ++i) sums[i][0] = sums[i][1] = V{};
  const T* a = t.a;
  const T* panel = t.panel;
  for (Index k = 0; k < t.k; ++k, a += t.a_column, panel += 2 * kLanes) {
    const V b0 = *reinterpret_cast<const V*>(panel);
    const V b1 = *reinterpret_cast<const V*>(panel + kLanes);
    for (int i = 0; i < kRows; ++i) {
      const V one = V{} + a[i * t.a_row];
      sums[i][0] += one * b0;
      sums[i][1] += one * b1;
    }
  }
  for (int i = 0; i < kRows; ++i) {
    V* c0 = reinterpret_cast<V*>(t.c + i * t.c_row);
    V* c1 = reinterpret_cast<V*>(t.c + i * t.c_row + kLanes);
    *c0 = t.is_adding ? *c0 + sums[i][0] : sums[i][0];
    *c1 = t.is_adding ? *c1 + sums[i][1] : sums[i][1];
  }
}

template <typename T>
void tile_rows(const Tile<T>& t, int rows) {
  switch (rows) {
    case 1:
      return tile_product<T, 1>(t);
    case 2:
      return tile_product<T, 2>(t);
    case 3:
      return tile_product<T, 3>(t);
    case 4:
      return tile_product<T, 4>(t);
    case 5:
      return tile_product<T, 5>(t);
    case 6:
      return tile_product<T, 6>(t);
#if PAWL_VECTOR_BYTES == 64
    case 7:
      return tile_product<T, 7>(t);
    case 8:
      return tile_product<T, 8>(t);
    case 9:
      return tile_product<T, 9>(t);
    case 10:
      return tile_product<T, 10>(t);
    case 11:
      return tile_product<T, 11>(t);
    case 12:
      return tile_product<T, 12>(t);
#endif
    default:
      return;
  }
}

// Rows [0, depth) of b as panels of kPanel columns, the last one filled up with zeros.
template <typename T>
void pack_b(const Gemm<T>& g, Index k0, Index depth, T* packed) {
  constexpr Index kPanel = 2 * kLanesOf(sizeof(T));
  for (Index n0 = 0; n0 < g.n; n0 += kPanel) {
    const Index columns = g.n - n0 < kPanel ? g.n - n0 : kPanel;
    const T* from = g.b + k0 * g.b_row + n0 * g.b_column;
    for (Index k = 0; k < depth; ++k, from += g.b_row, packed += kPanel) {
      if (columns == kPanel && g.b_column == 1) {
        for (Index j = 0; j < kPanel; ++j) packed[j] = from[j];
        continue;
      }
      for (Index j = 0; j < columns; ++j) packed[j] = from[j * g.b_column];
      for (Index j = columns; j < kPanel; ++j) packed[j] = 0;
    }
  }
}

template <typename T>
struct BlockOfA {
  const T* first;
  Index row, column;  // strides inside a tile
  Index tile;         // distance of two tiles
};

// The block of a that starts at (m0, k0): in place, or packed into tiles of kTileRows rows.
template <typename T>
BlockOfA<T> block_of_a(const Gemm<T>& g, Index m0, Index k0, Index rows, Index depth, T* packed) {
  const T* first = g.a + m0 * g.a_row + k0 * g.a_column;
  if (g.a_column == 1) return {first, g.a_row, 1, g.a_row * kTileRows};
  T* to = packed;
  for (Index i0 = 0; i0 < rows; i0 += kTileRows) {
    const Index height = rows - i0 < kTileRows ? rows - i0 : kTileRows;
    for (Index k = 0; k < depth; ++k, to += kTileRows) {
      const T* from = first + i0 * g.a_row + k * g.a_column;
      if (height == kTileRows && g.a_row == 1) {
        for (Index i = 0; i < kTileRows; ++i) to[i] = from[i];
      } else {
        for (Index i = 0; i < height; ++i) to[i] = from[i * g.a_row];
      }
    }
  }
  return {packed, 1, kTileRows, kTileRows * depth};
}

template <typename T>
void multiply_block(const Gemm<T>& g, const BlockOfA<T>& a, const T* panels, Index m0, Index rows,
                    Index depth, bool is_adding) {
  constexpr Index kPanel = 2 * kLanesOf(sizeof(T));
  T edge[kTileRows * kPanel];
  for (Index n0 = 0; n0 < g.n; n0 += kPanel, panels += depth * kPanel) {
    const Index columns = g.n - n0 < kPanel ? g.n - n0 : kPanel;
    for (Index i0 = 0; i0 < rows; i0 += kTileRows) {
      const Index height = rows - i0 < kTileRows ? rows - i0 : kTileRows;
      T* c = g.c + (m0 + i0) * g.c_row + n0;
      Tile<T> tile{depth,    a.first + i0 / kTileRows * a.tile, a.row, a.column, panels, c, g.c_row,
                   is_adding};
      if (columns == kPanel) {
        tile_rows(tile, static_cast<int>(height));
        continue;
      }
      tile.c = edge;
      tile.c_row = kPanel;
      tile.is_adding = false;
      tile_rows(tile, static_cast<int>(height));
      for (Index i = 0; i < height; ++i) {
        for (Index j = 0; j < columns; ++j) {
          T& to = c[i * g.c_row + j];
          to = is_adding ? to + edge[i * kPanel + j] : edge[i * kPanel + j];
        }
      }
    }
  }
}

template <typename T>
void gemm(const Gemm<T>& g) {
  T* panels = g.scratch;
  T* packed_a = panels + kGemmDepth * ((g.n + 63) / 64 * 64);
  for (Index k0 = 0; k0 < g.k; k0 += kGemmDepth) {
    const Index depth = g.k - k0 < kGemmDepth ? g.k - k0 : kGemmDepth;
    pack_b(g, k0, depth, panels);
    for (Index m0 = 0; m0 < g.m; m0 += kGemmRows) {
      const Index rows = g.m - m0 < kGemmRows ? g.m - m0 : kGemmRows;
      const BlockOfA<T> a = block_of_a(g, m0, k0, rows, depth, packed_a);
      multiply_block(g, a, panels, m0, rows, depth, g.is_adding || k0 > 0);
    }
  }
}
