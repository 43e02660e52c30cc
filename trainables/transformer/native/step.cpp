// The training step of a tiny transformer on one CPU core (forward, backward, clip and AdamW), and greedy decoding.
//
// The model is that of model.py, and tests compare this step with torch's (stack.py). This one is several times faster
// because it never leaves the core's small caches: a torch step is hundreds of kernels, and each of them streams
// activations of the whole batch through memory.
//
// Eight windows, eight lanes. A batch is cut into groups of eight windows. Every number of a window sits in a lane of
// its own, so a vector (`Vec`) holds the same number of eight windows. Norms, softmax and causal attention then need no
// sum across lanes, and n_embed needs no padding. Only gradients of parameters and the loss sum over lanes.
//
// A window across lanes. If a few windows are left over, each of them is cut into eight stretches, a stretch to a lane;
// a group with empty lanes would cost as much as a full one. Keys are then also read turned by one to seven lanes, so
// that each stretch meets the earlier ones.
//
// Panels. Positions are computed four at a time. An activation with R features is a row of panels, each a block
// [R][PANEL] of vectors. A product loads four vectors of inputs once for three outputs: twelve running sums, one
// weight, and the inputs fill the sixteen registers of AVX2.
//
// One small buffer. A group goes forward through all blocks and back again before the next group starts. What the
// backward pass needs stays in one buffer that every group reuses, a few hundred kilobytes.
//
// Gains of norms are folded into the matrix after them once a step, as model.py does it: (n g + b) W + c is
// n (g W) + (b W + c). Gradients of the folded matrix are unfolded after the last group.
//
// The same bits everywhere. There are eight lanes whatever the machine's vectors; sums run in a fixed order; only `fma`
// fuses (the build forbids the compiler to do so: -ffp-contract=off); exp, log and the normal distribution are computed
// here. So a run's weights are the same on every x86-64 machine with AVX2 and FMA, and on Arm, alone or next to other
// runs, resumed or not. A run that overflows ends in NaN, as with torch: comparisons below are written so that NaN passes them.
//
// Names of arrays: [layer] means that each layer has one. Tensors are [in][out], row by row, as in architecture.py.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <utility>
#include <vector>

// Python calls these two functions before any other, so they are compiled for any CPU.
// The version of the functions and structures below; INTERFACE in __init__.py is the one that Python expects.
extern "C" int32_t interface() { return 4; }
// Whether this CPU has what the library needs.
extern "C" int32_t cpu_is_supported() {
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return 1;
#endif
}

#if defined(__x86_64__)
#include <immintrin.h>
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC target("avx2,fma")
#endif
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

namespace {

constexpr int LANES = 8;  // Windows computed side by side.
constexpr int PANEL = 4;  // Positions computed together.
constexpr int TILE = 3;   // Outputs of a product computed together.
constexpr int ROWS = 4;   // Rows of a matrix's gradient computed together.
constexpr int CACHE = 700 * 1024;  // Bytes of activations that stay in a core's second cache.
constexpr float NORM_EPSILON = 1e-5f, ADAM_EPSILON = 1e-8f, CLIP_EPSILON = 1e-6f;

typedef float Vec __attribute__((vector_size(4 * LANES)));
typedef int32_t Ints __attribute__((vector_size(4 * LANES)));
typedef uint32_t Bits __attribute__((vector_size(4 * LANES)));

// ---------------------------------------------------------------------------------------------------------------------
// Vectors of eight floats

inline Vec all(float x) { return x - Vec{}; }

// a * b + c, rounded once.
inline Vec fma(Vec a, Vec b, Vec c) {
#if defined(__x86_64__)
    return (Vec)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__ARM_NEON)
    float32x4_t x[2], y[2], z[2];
    memcpy(x, &a, sizeof a), memcpy(y, &b, sizeof b), memcpy(z, &c, sizeof c);
    for (int half = 0; half < 2; half++) z[half] = vfmaq_f32(z[half], x[half], y[half]);
    memcpy(&c, z, sizeof c);
    return c;
#else
    for (int l = 0; l < LANES; l++) c[l] = __builtin_fmaf(a[l], b[l], c[l]);
    return c;
#endif
}

inline Vec square_root(Vec x) {
#if defined(__x86_64__)
    return (Vec)_mm256_sqrt_ps((__m256)x);
#else
    for (int l = 0; l < LANES; l++) x[l] = std::sqrt(x[l]);
    return x;
#endif
}

inline Vec larger(Vec a, Vec b) { return a < b ? b : a; }  // NaN if a is.

// e^x for x <= 0, to two units in the last place: 2^n e^r with |r| <= ln(2) / 2. At least 2^-126.
inline Vec exponential(Vec x) {
    x = larger(x, all(-87.3f));
    Vec n = x * 1.44269504f + 12582912.f;  // 1.5 * 2^23: the sum has no digits after the point.
    Bits exponent = (Bits)n << 23;
    n -= 12582912.f;
    Vec r = fma(n, all(-0.693359375f), x);  // ln 2 in two parts, the first short enough that n times it is exact.
    r = fma(n, all(2.12194440e-4f), r);
    Vec sum = all(1.f / 5040);
    for (float c : {1.f / 720, 1.f / 120, 1.f / 24, 1.f / 6, .5f, 1.f, 1.f}) sum = fma(sum, r, all(c));
    return (Vec)((Bits)sum + exponent);
}

// ln(x) for normal x > 0, to two units in the last place: n ln(2) + ln(m), m in [.7, 1.4], by the series of artanh.
inline Vec logarithm(Vec x) {
    const int32_t least = 0x3f3504f3;  // The bits of sqrt(1/2), the least m.
    Ints above = (Ints)x - least;
    Vec n = __builtin_convertvector(above >> 23, Vec);
    Vec m = (Vec)((above & 0x007fffff) + least);
    Vec s = (m - 1.f) / (m + 1.f), z = s * s;
    Vec sum = all(2.f / 11);
    for (float c : {2.f / 9, 2.f / 7, 2.f / 5, 2.f / 3, 2.f}) sum = fma(sum, z, all(c));
    return fma(n, all(0.693147181f), s * sum) + (x - x);  // x - x: NaN for NaN.
}

// GELU, x P(X <= x) for a standard normal X, and its slope. The tail P(X > a) is the density times a polynomial in
// 1 / (1 + .35 a), fitted to 3e-8 of it for a from 0 to 14.
inline void gelu(Vec x, Vec& value, Vec& slope) {
    Vec a = x < 0.f ? -x : x, t = 1.f / (1.f + .35f * a);
    Vec sum = all(-2.914480157e-2f);
    for (float c : {1.439666418e-1f, -2.557046417e-1f, 1.591640469e-1f, -2.310340638e-2f, 1.055054807e-1f, 1.198334635e-1f, 1.398617925e-1f, 1.396214085e-1f}) sum = fma(sum, t, all(c));
    Vec bell = exponential(x * x * -.5f), tail = bell * sum * t;
    Vec below = x < 0.f ? tail : 1.f - tail;
    value = x * below;
    slope = fma(x * .398942280f, bell, below);
}

// The sums over the lanes of eight vectors, as the lanes of one: halves, quarters, then eighths are added.
template <int GROUP, int HALF, size_t... N> inline Vec pick(Vec u, Vec v, std::index_sequence<N...>) {
    constexpr int G = GROUP / 2;
    return __builtin_shufflevector(u, v, int((N / G % 2) * LANES + N / GROUP * GROUP + HALF * G + N % G)...);
}
template <int GROUP> __attribute__((always_inline)) inline void merge(Vec* v) {
    constexpr auto lanes = std::make_index_sequence<LANES>();
    for (int i = 0; i < GROUP / 2; i++)
        v[i] = pick<GROUP, 0>(v[i], v[i + GROUP / 2], lanes) + pick<GROUP, 1>(v[i], v[i + GROUP / 2], lanes);
    if constexpr (GROUP > 2) merge<GROUP / 2>(v);
}
__attribute__((always_inline)) inline Vec lane_sums(Vec* v) {
    merge<LANES>(v);
    return v[0];
}

// `turn` moves every lane up by one, and the last to the first; `turn_back` undoes it.
inline Vec turn(Vec x) { return __builtin_shufflevector(x, x, 7, 0, 1, 2, 3, 4, 5, 6); }
inline Vec turn_back(Vec x) { return __builtin_shufflevector(x, x, 1, 2, 3, 4, 5, 6, 7, 0); }

// ---------------------------------------------------------------------------------------------------------------------
// Products of panels with matrices

// Cut n into pieces of at most MOST, as equal as they can be, and call f(std::integral_constant<int, piece>, begin).
template <int MOST, int PIECE = MOST, class F> inline void with_size(int n, F&& f) {
    if (n == PIECE) return f(std::integral_constant<int, PIECE>());
    if constexpr (PIECE > 1) with_size<MOST, PIECE - 1>(n, f);
}
template <int MOST, class F> inline void in_tiles(int n, F&& f) {
    const int tiles = (n + MOST - 1) / MOST;
    for (int tile = 0, begin = 0; tile < tiles; tile++) {
        int size = n / tiles + (tile < n % tiles);
        with_size<MOST>(size, [&](auto piece) { f(piece, begin); });
        begin += size;
    }
}

// A matrix whose element [i][j] is at[i * row + j * column].
template <class Number> struct Matrix {
    Number* at;
    int64_t row, column;
    Number& operator()(int64_t i, int64_t j) const { return at[i * row + j * column]; }
    Matrix transposed() const { return {at, column, row}; }
};
typedef Matrix<const float> Weights;

// What becomes of a product s: y = s, y += s, y = relu(s), y = gelu(s) with its slope in `other`; or, backward, y = s
// where `other`, relu's output, is positive, and y = s * other.
enum End { SET, ADD, RELU, GELU, WHERE_POSITIVE, TIMES };
template <End END> inline void finish(Vec s, Vec& y, Vec& other) {
    if (END == SET) y = s;
    if (END == ADD) y += s;
    if (END == RELU) y = s < 0.f ? Vec{} : s;
    if (END == GELU) gelu(s, y, other);
    if (END == WHERE_POSITIVE) y = other <= 0.f ? Vec{} : s;
    if (END == TIMES) y = s * other;
}

// For one panel: y[j] ends as bias[j] + the sum over i of x[i] w(i, j), for i < inputs and j < outputs.
template <End END>
void product(int inputs, const Vec* x, Weights w, const float* bias, int outputs, Vec* y, Vec* other = nullptr) {
    in_tiles<TILE>(outputs, [&](auto size, int first) {
        constexpr int SIZE = decltype(size)::value;
        Vec sum[SIZE][PANEL];
        for (int j = 0; j < SIZE; j++)
            for (int p = 0; p < PANEL; p++) sum[j][p] = all(bias ? bias[first + j] : 0.f);
        const float* weight = w.at + first * w.column;
        for (int i = 0; i < inputs; i++, weight += w.row) {
            Vec a[PANEL];
            for (int p = 0; p < PANEL; p++) a[p] = x[i * PANEL + p];
            for (int j = 0; j < SIZE; j++) {
                Vec b = all(weight[j * w.column]);
                for (int p = 0; p < PANEL; p++) sum[j][p] = fma(a[p], b, sum[j][p]);
            }
        }
        for (int j = 0; j < SIZE; j++)
            for (int p = 0; p < PANEL; p++) {
                int at = (first + j) * PANEL + p;
                finish<END>(sum[j][p], y[at], other ? other[at] : y[at]);
            }
    });
}

// The gradient of a matrix, d[i][j] += the sum over positions and windows of x[i] y[j]; some panels at a time, so that
// they are read from the cache. A tile's rows are first copied to `strip`, without gaps between panels: in x, panels lie a
// multiple of the first cache's stride apart where n_embed is one of 32, and push each other out of it.
void outer(int panels, int rows, const Vec* x, int columns, const Vec* y, float* d, Vec* strip) {
    const int at_once = std::max(4, CACHE / int(sizeof(Vec) * PANEL * (rows + columns)));
    for (int begin = 0; begin < panels; begin += at_once) {
        const int end = std::min(panels, begin + at_once);
        in_tiles<ROWS>(rows, [&](auto size_i, int first_i) {
            constexpr int I = decltype(size_i)::value;
            for (int panel = begin; panel < end; panel++)
                std::copy_n(x + (panel * rows + first_i) * PANEL, I * PANEL, strip + (panel - begin) * I * PANEL);
            in_tiles<TILE>(columns, [&](auto size_j, int first_j) {
                constexpr int J = decltype(size_j)::value;
                Vec sum[I][J] = {};
                const Vec *a = strip, *b = y + (begin * columns + first_j) * PANEL;
                for (int panel = begin; panel < end; panel++, a += I * PANEL, b += columns * PANEL)
#pragma GCC unroll 1  // Unrolled, the sums do not fit the registers.
                    for (int p = 0; p < PANEL; p++)
                        for (int i = 0; i < I; i++)
                            for (int j = 0; j < J; j++)
                                sum[i][j] = fma(a[i * PANEL + p], b[j * PANEL + p], sum[i][j]);
                Vec flat[2 * LANES] = {};
                for (int i = 0; i < I; i++)
                    for (int j = 0; j < J; j++) flat[i * J + j] = sum[i][j];
                float total[2 * LANES];
                for (int half = 0; half < 2 * LANES; half += LANES) {
                    Vec sums = lane_sums(flat + half);
                    memcpy(total + half, &sums, sizeof sums);
                }
                for (int i = 0; i < I; i++)
                    for (int j = 0; j < J; j++) d[int64_t(first_i + i) * columns + first_j + j] += total[i * J + j];
            });
        });
    }
}

// The gradient of a bias, d[j] += the sum over positions and windows of y[j].
void row_sums(int panels, int rows, const Vec* y, float* d) {
    for (int first = 0; first < rows; first += LANES) {
        const int size = std::min(LANES, rows - first);
        Vec sum[LANES] = {};
        for (int panel = 0; panel < panels; panel++)
            for (int j = 0; j < size; j++)
                for (int p = 0; p < PANEL; p++) sum[j] += y[(panel * rows + first + j) * PANEL + p];
        Vec total = lane_sums(sum);
        for (int j = 0; j < size; j++) d[first + j] += total[j];
    }
}

// A linear map after a layer norm, with the norm's gain and bias folded into it, and the gradients of the folded one.
struct AfterNorm {
    int inputs = 0, outputs = 0;
    std::vector<float> matrix, bias, d_matrix, d_bias;

    Weights weights() const { return {matrix.data(), outputs, 1}; }

    void fold(const float* gain, const float* shift, Weights w, const float* b, int n, int k) {
        inputs = n, outputs = k;
        matrix.resize(size_t(n) * k), d_matrix.assign(size_t(n) * k, 0.f);
        bias.assign(k, 0.f), d_bias.assign(k, 0.f);
        if (b) std::copy(b, b + k, bias.begin());
        for (int i = 0; i < n; i++)
            for (int j = 0; j < k; j++) {
                matrix[size_t(i) * k + j] = gain[i] * w(i, j);
                if (shift) bias[j] = __builtin_fmaf(shift[i], w(i, j), bias[j]);
            }
    }

    void unfold(const float* gain, const float* shift, Weights w, float* d_gain, float* d_shift, Matrix<float> d_w,
                float* d_b) const {
        for (int i = 0; i < inputs; i++) {
            float of_gain = 0, of_shift = 0;
            for (int j = 0; j < outputs; j++) {
                const float d = d_matrix[size_t(i) * outputs + j];
                of_gain = __builtin_fmaf(d, w(i, j), of_gain);
                d_w(i, j) = __builtin_fmaf(gain[i], d, d_w(i, j));
                if (shift) {
                    of_shift = __builtin_fmaf(d_bias[j], w(i, j), of_shift);
                    d_w(i, j) = __builtin_fmaf(shift[i], d_bias[j], d_w(i, j));
                }
            }
            d_gain[i] = of_gain;
            if (shift) d_shift[i] = of_shift;
        }
        if (d_b) std::copy(d_bias.begin(), d_bias.end(), d_b);
    }
};

// ---------------------------------------------------------------------------------------------------------------------
// Layer norm, for one panel

// normed = (x - mean) / deviation over `n` features; `inverse` is 1 / deviation.
void norm(int n, const Vec* x, Vec* normed, Vec* inverse) {
    Vec mean[PANEL] = {}, variance[PANEL] = {};
    for (int i = 0; i < n; i++)
        for (int p = 0; p < PANEL; p++) mean[p] += x[i * PANEL + p];
    for (int p = 0; p < PANEL; p++) mean[p] *= 1.f / n;
    for (int i = 0; i < n; i++)
        for (int p = 0; p < PANEL; p++) {
            Vec difference = x[i * PANEL + p] - mean[p];
            normed[i * PANEL + p] = difference;
            variance[p] = fma(difference, difference, variance[p]);
        }
    for (int p = 0; p < PANEL; p++) inverse[p] = 1.f / square_root(variance[p] * (1.f / n) + NORM_EPSILON);
    for (int i = 0; i < n; i++)
        for (int p = 0; p < PANEL; p++) normed[i * PANEL + p] *= inverse[p];
}

// d_x = `before` (if any) + the gradient that comes through the norm.
void norm_back(int n, const Vec* d_normed, const Vec* normed, const Vec* inverse, const Vec* before, Vec* d_x) {
    Vec mean[PANEL] = {}, along[PANEL] = {};
    for (int i = 0; i < n; i++)
        for (int p = 0; p < PANEL; p++) {
            int at = i * PANEL + p;
            mean[p] += d_normed[at];
            along[p] = fma(d_normed[at], normed[at], along[p]);
        }
    for (int p = 0; p < PANEL; p++) mean[p] *= 1.f / n, along[p] *= 1.f / n;
    for (int i = 0; i < n; i++)
        for (int p = 0; p < PANEL; p++) {
            int at = i * PANEL + p;
            Vec d = inverse[p] * (d_normed[at] - mean[p] - normed[at] * along[p]);
            d_x[at] = before ? before[at] + d : d;
        }
}

// ---------------------------------------------------------------------------------------------------------------------
// Causal attention of one head, tile by tile: PANEL queries i against PANEL keys j. Weights lie as [tile][key][query],
// the tiles of a later query panel after those of an earlier one.

constexpr int64_t TILE_SIZE = PANEL * PANEL;

// Where the tiles of a query panel are, and which of their keys its queries see. In a group, the tiles are the key
// panels up to its own. For a window across lanes, they are all of its key panels, then all of them turned by one lane,
// by two, ...: a query sees all of a turned panel unless the turn brought later positions into its lane.
struct Tiles {
    bool across;
    int panels;
    int count(int panel) const { return across ? panels * LANES : panel + 1; }
    int64_t begin(int panel) const {
        return TILE_SIZE * (across ? int64_t(panel) * count(0) : int64_t(panel) * (panel + 1) / 2);
    }
    // How many of the first tiles all queries of a panel see.
    int seen(int panel) const { return across ? 0 : panel; }
    // Vectors for one head, whatever the layout of `panels` panels, a multiple of LANES.
    static int64_t most(int panels) { return TILE_SIZE * (int64_t(panels) * (panels + 1) / 2); }
    Ints sees(int panel, int i, int tile, int j) const {
        if (tile < panels) return Ints{} - int32_t(tile * PANEL + j <= panel * PANEL + i);
        return Ints{0, 1, 2, 3, 4, 5, 6, 7} >= tile / panels;
    }
};

// out[j][i] = the sum over features of a[.][i] b[.][j].
void scores(int features, const Vec* a, const Vec* b, Vec* out) {
    constexpr int HALF = PANEL / 2;  // All sums of a tile do not fit the registers.
    for (int first = 0; first < PANEL; first += HALF) {
        Vec sum[HALF][PANEL] = {};
        for (int f = 0; f < features; f++)
            for (int j = 0; j < HALF; j++)
                for (int i = 0; i < PANEL; i++)
                    sum[j][i] = fma(a[f * PANEL + i], b[f * PANEL + first + j], sum[j][i]);
        for (int j = 0; j < HALF; j++)
            for (int i = 0; i < PANEL; i++) out[(first + j) * PANEL + i] = sum[j][i];
    }
}

// out[f][i] = the sum over the keys j of `tiles` tiles of weights[j][i] x[f][j]; x has a panel every `stride`.
void mix(int tiles, int features, const Vec* weights, const Vec* x, int stride, Vec* out) {
    in_tiles<TILE>(features, [&](auto size, int first) {
        constexpr int SIZE = decltype(size)::value;
        Vec sum[SIZE][PANEL] = {};
        const Vec *xs = x + first * PANEL, *w = weights;
        for (int tile = 0; tile < tiles; tile++, xs += stride, w += TILE_SIZE)
            for (int j = 0; j < PANEL; j++)
                for (int f = 0; f < SIZE; f++)
                    for (int i = 0; i < PANEL; i++) sum[f][i] = fma(xs[f * PANEL + j], w[j * PANEL + i], sum[f][i]);
        for (int f = 0; f < SIZE; f++)
            for (int i = 0; i < PANEL; i++) out[(first + f) * PANEL + i] = sum[f][i];
    });
}

// out[f][j] = the sum over the queries i that may see a tile's keys j of weights[j][i] x[f][i].
void mix_back(int tile, const Tiles& tiles, int features, const Vec* weights, const Vec* x, int stride, Vec* out) {
    in_tiles<TILE>(features, [&](auto size, int first) {
        constexpr int SIZE = decltype(size)::value;
        Vec sum[SIZE][PANEL] = {};
        for (int panel = tile < tiles.panels ? tile : 0; panel < tiles.panels; panel++) {
            const Vec* xs = x + panel * int64_t(stride) + first * PANEL;
            const Vec* w = weights + tiles.begin(panel) + tile * TILE_SIZE;
            for (int i = 0; i < PANEL; i++)
                for (int f = 0; f < SIZE; f++)
                    for (int j = 0; j < PANEL; j++) sum[f][j] = fma(xs[f * PANEL + i], w[j * PANEL + i], sum[f][j]);
        }
        for (int f = 0; f < SIZE; f++)
            for (int j = 0; j < PANEL; j++) out[(first + f) * PANEL + j] = sum[f][j];
    });
}

// Turn the scores of one query panel into weights that sum to 1 over the keys that each query sees.
void softmax(int panel, const Tiles& tiles, float scale, Vec* w) {
    const int seen = tiles.seen(panel) * PANEL, count = tiles.count(panel) * PANEL;
    Vec most[PANEL], sum[PANEL] = {};
    for (int i = 0; i < PANEL; i++) most[i] = all(-INFINITY);
    for (int at = 0; at < seen; at++)
        for (int i = 0; i < PANEL; i++) most[i] = larger(w[at * PANEL + i], most[i]);
    for (int at = seen; at < count; at++)
        for (int i = 0; i < PANEL; i++)
            most[i] = tiles.sees(panel, i, at / PANEL, at % PANEL) ? larger(w[at * PANEL + i], most[i]) : most[i];
    for (int at = 0; at < seen; at++)
        for (int i = 0; i < PANEL; i++) {
            Vec& weight = w[at * PANEL + i];
            weight = exponential((weight - most[i]) * scale);
            sum[i] += weight;
        }
    for (int at = seen; at < count; at++)
        for (int i = 0; i < PANEL; i++) {
            Vec& weight = w[at * PANEL + i];
            const Vec e = exponential((weight - most[i]) * scale);
            weight = tiles.sees(panel, i, at / PANEL, at % PANEL) ? e : Vec{};
            sum[i] += weight;
        }
    for (int i = 0; i < PANEL; i++) sum[i] = 1.f / sum[i];
    for (int at = 0; at < count; at++)
        for (int i = 0; i < PANEL; i++) w[at * PANEL + i] *= sum[i];
}

// ---------------------------------------------------------------------------------------------------------------------
// A model and its place in memory; the structures that begin with extern "C" are filled by __init__.py

enum OfModel { TOKEN, POSITION, FINAL_NORM, FINAL_NORM_BIAS, HEAD, HEAD_BIAS, OF_MODEL };
enum OfLayer {
    ATTENTION_NORM, ATTENTION_NORM_BIAS, QKV, QKV_BIAS, ATTENTION_OUT, ATTENTION_OUT_BIAS,
    FEED_FORWARD_NORM, FEED_FORWARD_NORM_BIAS, FEED_FORWARD_IN, FEED_FORWARD_IN_BIAS,
    FEED_FORWARD_OUT, FEED_FORWARD_OUT_BIAS, OF_LAYER
};

}  // namespace

extern "C" struct Shape {
    int32_t n_layer, n_recurrence, n_head, n_embed, hidden, block, vocabulary, is_gelu, is_parallel;
    int64_t parameters;      // Floats of a model's flat vector, with its padding.
    const int64_t* offsets;  // Of its tensors, those of the model and then those of each layer; -1: there is none.
};

namespace {

// The tensors in a flat vector of a model: parameters, or their gradient.
template <class Number> struct Tensors {
    Number* flat;
    const int64_t* offsets;
    Number* of_model(OfModel which) const { return at(which); }
    Number* of_layer(int layer, OfLayer which) const { return at(OF_MODEL + layer * OF_LAYER + which); }

   private:
    Number* at(int which) const { return offsets[which] < 0 ? nullptr : flat + offsets[which]; }
};

// A window of a text: the model predicts tokens[t + 1] from tokens up to t, where counted[t + 1]; nullptr counts all.
struct Window {
    const uint16_t* tokens;
    const uint8_t* counted;
    int last;  // The last t that counts, -1 if none does.
    bool counts(int t) const { return !counted || counted[t + 1]; }
};

// A text to write from `begin` on. The tokens there already are a draft; it ends with the token at `last`.
struct Draft {
    int64_t* tokens;
    int64_t begin, last;
};

// What one application of a block saves for its backward pass, for one group of windows. Only GELU uses `slope`. In a
// parallel block, where attention and feed-forward read the same stream, both norms are one.
struct Block {
    Vec *normed_1, *inverse_1, *qkv, *weights, *mixed, *normed_2, *inverse_2, *hidden, *slope;
};

// ---------------------------------------------------------------------------------------------------------------------
// One model: its loss on a batch with the gradient, and the texts it writes

class Model {
   public:
    explicit Model(const Shape& shape)
        : s(shape), C(s.n_embed), F(s.hidden), V(s.vocabulary), T(s.block),
          most_panels((T + PANEL * LANES - 1) / (PANEL * LANES) * LANES), most_tiles(Tiles::most(most_panels)),
          head_size(C / s.n_head), scale(1.f / std::sqrt(float(head_size))), into_attention(s.n_layer),
          into_hidden(s.n_layer), blocks(size_t(s.n_layer) * s.n_recurrence) {
        auto features = [&](int n) { return take(int64_t(n) * most_panels * PANEL); };
        for (Block& block : blocks) {
            block = {features(C), features(1), features(3 * C), take(s.n_head * most_tiles), features(C),
                     nullptr, nullptr, features(F), s.is_gelu ? features(F) : nullptr};
            block.normed_2 = s.is_parallel ? block.normed_1 : features(C);
            block.inverse_2 = s.is_parallel ? block.inverse_1 : features(1);
        }
        x = features(C), final_normed = features(C), final_inverse = features(1), logits = features(V);
        d_x = features(C), d_middle = features(C), d_hidden = features(F), d_qkv = features(3 * C);
        d_mixed = features(C), d_weights = take(s.n_head * most_tiles), d_normed = take(PANEL * C);
        strip = features(ROWS);
        turned = features(2 * C), d_turned = features(2 * C);
        weight = features(1);
        token.resize(size_t(most_panels) * PANEL * LANES), target.resize(token.size());
    }

    // The mean loss over the counted tokens of `windows`, which are sorted, and its gradient in all parameters.
    float loss(const float* parameters, std::vector<Window>& windows, float* gradient) {
        d = {gradient, s.offsets};
        std::fill(gradient, gradient + s.parameters, 0.f);
        fold(parameters);
        const float share = 1.f / std::max(1, sort(windows));
        float loss = 0;
        for (size_t first = 0; first < windows.size();) {
            const int positions = windows[first].last + 1;  // Later ones change nothing.
            if (!positions) break;
            const int given = lay_out(positions, int(windows.size() - first));
            fill(&windows[first], given, share);
            for (int panel = 0; panel < tiles.panels; panel++) embed(panel);
            for (size_t i = 0; i < blocks.size(); i++) forward(int(i % s.n_layer), blocks[i]);
            loss += predict();
            for (size_t i = blocks.size(); i-- > 0;) backward(int(i % s.n_layer), blocks[i]);
            embed_back();
            first += given;
        }
        unfold();
        return loss;
    }

    // Write texts of up to `width` tokens, each to its first `end`, with the model's most likely token at each position.
    // Texts of similar length are written side by side.
    void write(const float* parameters, std::vector<Draft>& texts, int64_t width, int64_t end) {
        fold(parameters);
        tiles = {false, most_panels};
        std::stable_sort(texts.begin(), texts.end(), [](const Draft& a, const Draft& b) { return a.last > b.last; });
        for (size_t first = 0; first < texts.size(); first += LANES)
            write(&texts[first], int(std::min(texts.size() - first, size_t(LANES))), width, end);
    }

   private:
    const Shape& s;
    const int C, F, V, T, most_panels;  // Features, of the hidden layer, vocabulary, positions.
    const int64_t most_tiles;
    const int head_size;
    const float scale;
    Tensors<const float> p{};
    Tensors<float> d{};
    std::vector<AfterNorm> into_attention, into_hidden;  // [layer]
    AfterNorm head;
    std::vector<Block> blocks;  // As they are applied: recurrence by recurrence, layer by layer.
    std::vector<std::unique_ptr<void, void (*)(void*)>> memory;
    Tiles tiles{};  // Of the present group or window: up to the last counted token.
    Vec *turned, *d_turned;  // Keys and values of a window across lanes, tile by tile, and their gradient.
    Vec *x, *final_normed, *final_inverse, *logits, *weight;
    Vec *d_x, *d_middle, *d_hidden, *d_qkv, *d_mixed, *d_weights, *d_normed, *strip;
    std::vector<int32_t> token, target;  // [position][lane]

    Vec* take(int64_t vectors) {
        const size_t bytes = (vectors * sizeof(Vec) + 63) / 64 * 64;
        memory.emplace_back(std::aligned_alloc(64, bytes), std::free);
        if (!memory.back()) throw std::bad_alloc();
        return static_cast<Vec*>(memory.back().get());
    }

    // The head's matrix: its own, or the token embedding turned around.
    template <class Number> Matrix<Number> head_matrix(const Tensors<Number>& of) const {
        Number* own = of.of_model(HEAD);
        return own ? Matrix<Number>{own, V, 1} : Matrix<Number>{of.of_model(TOKEN), 1, C};
    }
    Weights matrix(int layer, OfLayer which, int columns) const { return {p.of_layer(layer, which), columns, 1}; }

    void fold(const float* parameters) {
        p = {parameters, s.offsets};
        for (int l = 0; l < s.n_layer; l++) {
            into_attention[l].fold(p.of_layer(l, ATTENTION_NORM), p.of_layer(l, ATTENTION_NORM_BIAS),
                                   matrix(l, QKV, 3 * C), p.of_layer(l, QKV_BIAS), C, 3 * C);
            into_hidden[l].fold(p.of_layer(l, FEED_FORWARD_NORM), p.of_layer(l, FEED_FORWARD_NORM_BIAS),
                                matrix(l, FEED_FORWARD_IN, F), p.of_layer(l, FEED_FORWARD_IN_BIAS), C, F);
        }
        head.fold(p.of_model(FINAL_NORM), p.of_model(FINAL_NORM_BIAS), head_matrix(p), p.of_model(HEAD_BIAS), C, V);
    }
    void unfold() {
        for (int l = 0; l < s.n_layer; l++) {
            into_attention[l].unfold(p.of_layer(l, ATTENTION_NORM), p.of_layer(l, ATTENTION_NORM_BIAS),
                                     matrix(l, QKV, 3 * C), d.of_layer(l, ATTENTION_NORM),
                                     d.of_layer(l, ATTENTION_NORM_BIAS), {d.of_layer(l, QKV), 3 * C, 1},
                                     d.of_layer(l, QKV_BIAS));
            into_hidden[l].unfold(p.of_layer(l, FEED_FORWARD_NORM), p.of_layer(l, FEED_FORWARD_NORM_BIAS),
                                  matrix(l, FEED_FORWARD_IN, F), d.of_layer(l, FEED_FORWARD_NORM),
                                  d.of_layer(l, FEED_FORWARD_NORM_BIAS), {d.of_layer(l, FEED_FORWARD_IN), F, 1},
                                  d.of_layer(l, FEED_FORWARD_IN_BIAS));
        }
        head.unfold(p.of_model(FINAL_NORM), p.of_model(FINAL_NORM_BIAS), head_matrix(p), d.of_model(FINAL_NORM),
                    d.of_model(FINAL_NORM_BIAS), head_matrix(d), d.of_model(HEAD_BIAS));
    }

    // Bring windows of similar length into the same groups, the longest first; returns how many tokens count.
    int sort(std::vector<Window>& windows) const {
        int count = 0;
        for (Window& window : windows) {
            window.last = -1;
            for (int t = 0; t < T; t++)
                if (window.counts(t)) count++, window.last = t;
        }
        std::stable_sort(windows.begin(), windows.end(),
                         [](const Window& a, const Window& b) { return a.last > b.last; });
        return count;
    }
    // Lay out the next windows, the first of which needs `positions`; returns how many: eight side by side, or one across
    // lanes where those that do not fill a group cost less that way.
    int lay_out(int positions, int left) {
        auto panels = [&](int of_panel) { return (positions + of_panel - 1) / of_panel; };
        const int over = left % LANES, side_by_side = panels(PANEL), across = panels(PANEL * LANES);
        if (over && over * across * 5 < side_by_side * 4) {  // Across lanes, a panel costs a quarter more.
            tiles = {true, across};
            return 1;
        }
        tiles = {false, side_by_side};
        return std::min(left, LANES);
    }
    // The position of a window in lane `l` of slot `t`.
    int position(int t, int l) const { return tiles.across ? l * tiles.panels * PANEL + t : t; }

    // Tokens of `given` windows, lane by lane. Lanes and positions beyond repeat a window and weigh nothing.
    void fill(const Window* windows, int given, float share) {
        for (int t = 0; t < tiles.panels * PANEL; t++)
            for (int l = 0; l < LANES; l++) {
                const Window& window = windows[!tiles.across && l < given ? l : 0];
                const int at = position(t, l), from = std::min(at, T - 1);
                token[t * LANES + l] = window.tokens[from];
                target[t * LANES + l] = window.tokens[from + 1];
                weight[t][l] = (tiles.across || l < given) && at < T && window.counts(at) ? share : 0.f;
            }
    }

    void embed(int panel) {
        const float *tokens = p.of_model(TOKEN), *positions = p.of_model(POSITION);
        for (int t = panel * PANEL; t < (panel + 1) * PANEL; t++) {
            Vec* to = x + int64_t(t / PANEL) * C * PANEL + t % PANEL;
            for (int l = 0; l < LANES; l++) {
                const float* row = tokens + int64_t(token[t * LANES + l]) * C;
                const float* place = positions + int64_t(std::min(position(t, l), T - 1)) * C;
                for (int i = 0; i < C; i++) to[i * PANEL][l] = row[i] + place[i];
            }
        }
    }
    void embed_back() {
        float *tokens = d.of_model(TOKEN), *positions = d.of_model(POSITION);
        for (int t = 0; t < tiles.panels * PANEL; t++) {
            const Vec* from = d_x + int64_t(t / PANEL) * C * PANEL + t % PANEL;
            for (int l = 0; l < LANES; l++) {
                const int at = position(t, l);
                if (at >= T) continue;
                float* row = tokens + int64_t(token[t * LANES + l]) * C;
                for (int i = 0; i < C; i++) row[i] += from[i * PANEL][l];
                if (tiles.across)
                    for (int i = 0; i < C; i++) positions[int64_t(at) * C + i] += from[i * PANEL][l];
            }
            if (tiles.across || t >= T) continue;
            for (int first = 0; first < C; first += LANES) {
                const int size = std::min(LANES, C - first);
                Vec of[LANES] = {};
                for (int i = 0; i < size; i++) of[i] = from[(first + i) * PANEL];
                Vec total = lane_sums(of);
                for (int i = 0; i < size; i++) positions[int64_t(t) * C + first + i] += total[i];
            }
        }
    }

    // The keys and values of a block, or their gradient: those of a tile follow `stride` vectors after the last one's.
    template <class Vectors> struct Keys {
        Vectors* at;
        int stride;
    };
    Keys<const Vec> keys(const Block& block) {
        if (!tiles.across) return {block.qkv + C * PANEL, 3 * C * PANEL};
        const int size = 2 * C * PANEL, once = tiles.panels * size;
        for (int panel = 0; panel < tiles.panels; panel++)
            std::copy_n(block.qkv + (3 * panel + 1) * C * PANEL, size, turned + panel * size);
        for (int i = once; i < LANES * once; i++) turned[i] = turn(turned[i - once]);
        return {turned, size};
    }
    Keys<Vec> d_keys() const {
        if (tiles.across) return {d_turned, 2 * C * PANEL};
        return {d_qkv + C * PANEL, 3 * C * PANEL};
    }
    void turn_keys_back() {
        const int size = 2 * C * PANEL, once = tiles.panels * size;
        for (int i = LANES * once; i-- > once;) d_turned[i - once] += turn_back(d_turned[i]);
        for (int panel = 0; panel < tiles.panels; panel++)
            std::copy_n(d_turned + panel * size, size, d_qkv + (3 * panel + 1) * C * PANEL);
    }

    void attend(int panel, const Block& block, Keys<const Vec> keys) {
        const int64_t own = int64_t(panel) * C * PANEL;
        for (int h = 0; h < s.n_head; h++) {
            const int64_t of_head = int64_t(h) * head_size * PANEL;
            Vec* w = block.weights + h * most_tiles + tiles.begin(panel);
            const Vec *q = block.qkv + 3 * own + of_head, *k = keys.at + of_head;
            for (int tile = 0; tile < tiles.count(panel); tile++)
                scores(head_size, q, k + int64_t(tile) * keys.stride, w + tile * TILE_SIZE);
            softmax(panel, tiles, scale, w);
            mix(tiles.count(panel), head_size, w, k + C * PANEL, keys.stride, block.mixed + own + of_head);
        }
    }
    void forward(int l, const Block& block) {
        for (int panel = 0; panel < tiles.panels; panel++) {
            project(l, block, panel);
            if (!tiles.across) complete(l, block, panel, keys(block));
        }
        if (!tiles.across) return;
        const Keys<const Vec> of_block = keys(block);  // A panel meets later ones in other lanes.
        for (int panel = 0; panel < tiles.panels; panel++) complete(l, block, panel, of_block);
    }
    // The queries, keys and values of one panel.
    void project(int l, const Block& block, int panel) {
        const int64_t own = int64_t(panel) * C * PANEL;
        norm(C, x + own, block.normed_1 + own, block.inverse_1 + panel * PANEL);
        const AfterNorm& qkv = into_attention[l];
        product<SET>(C, block.normed_1 + own, qkv.weights(), qkv.bias.data(), 3 * C, block.qkv + 3 * own);
    }
    // Attention and feed-forward of one panel.
    void complete(int l, const Block& block, int panel, Keys<const Vec> keys) {
        const int64_t own = int64_t(panel) * C * PANEL;
        Vec* hidden = block.hidden + int64_t(panel) * F * PANEL;
        const AfterNorm& in = into_hidden[l];
        attend(panel, block, keys);
        product<ADD>(C, block.mixed + own, matrix(l, ATTENTION_OUT, C), p.of_layer(l, ATTENTION_OUT_BIAS), C, x + own);
        if (!s.is_parallel) norm(C, x + own, block.normed_2 + own, block.inverse_2 + panel * PANEL);
        if (s.is_gelu)
            product<GELU>(C, block.normed_2 + own, in.weights(), in.bias.data(), F, hidden,
                          block.slope + int64_t(panel) * F * PANEL);
        else
            product<RELU>(C, block.normed_2 + own, in.weights(), in.bias.data(), F, hidden);
        product<ADD>(F, hidden, matrix(l, FEED_FORWARD_OUT, C), p.of_layer(l, FEED_FORWARD_OUT_BIAS), C, x + own);
    }

    // The gradient of a head's scores from that of what it mixed, into d_weights; and of its queries.
    void attend_back(int panel, const Block& block, Keys<const Vec> keys) {
        const int64_t own = int64_t(panel) * C * PANEL;
        for (int h = 0; h < s.n_head; h++) {
            const int64_t of_head = int64_t(h) * head_size * PANEL;
            const int64_t at = h * most_tiles + tiles.begin(panel);
            const Vec *w = block.weights + at, *k = keys.at + of_head, *v = k + C * PANEL;
            const Vec *d_out = d_mixed + own + of_head, *out = block.mixed + own + of_head;
            Vec *d_w = d_weights + at, mean[PANEL] = {};
            for (int f = 0; f < head_size; f++)
                for (int i = 0; i < PANEL; i++) mean[i] = fma(d_out[f * PANEL + i], out[f * PANEL + i], mean[i]);
            for (int tile = 0; tile < tiles.count(panel); tile++) {
                Vec* to = d_w + tile * TILE_SIZE;
                scores(head_size, d_out, v + int64_t(tile) * keys.stride, to);
                for (int j = 0; j < PANEL; j++)
                    for (int i = 0; i < PANEL; i++)
                        to[j * PANEL + i] = w[(tile * PANEL + j) * PANEL + i] * (to[j * PANEL + i] - mean[i]) * scale;
            }
            mix(tiles.count(panel), head_size, d_w, k, keys.stride, d_qkv + 3 * own + of_head);
        }
    }
    // On entry, d_x is the gradient of the stream after the block; on return, that of the stream before the block.
    // d_middle is the gradient of the stream between attention and feed-forward; in a parallel block, that before the
    // block without what comes through attention.
    void backward(int l, const Block& block) {
        const Weights out = matrix(l, ATTENTION_OUT, C), back = matrix(l, FEED_FORWARD_OUT, C);
        AfterNorm &qkv = into_attention[l], &in = into_hidden[l];
        const int panels = tiles.panels;
        const Keys<const Vec> of_block = keys(block);
        const Vec* d_attended = s.is_parallel ? d_x : d_middle;  // The gradient of what attention added to the stream.
        for (int panel = 0; panel < panels; panel++) {
            const int64_t own = int64_t(panel) * C * PANEL, own_hidden = int64_t(panel) * F * PANEL;
            if (s.is_gelu)
                product<TIMES>(C, d_x + own, back.transposed(), nullptr, F, d_hidden + own_hidden, block.slope + own_hidden);
            else
                product<WHERE_POSITIVE>(C, d_x + own, back.transposed(), nullptr, F, d_hidden + own_hidden,
                                        block.hidden + own_hidden);
            product<SET>(F, d_hidden + own_hidden, in.weights().transposed(), nullptr, C, d_normed);
            norm_back(C, d_normed, block.normed_2 + own, block.inverse_2 + panel * PANEL, d_x + own, d_middle + own);
            product<SET>(C, d_attended + own, out.transposed(), nullptr, C, d_mixed + own);
            attend_back(panel, block, of_block);
        }
        for (int tile = 0; tile < tiles.count(panels - 1); tile++)
            for (int h = 0; h < s.n_head; h++) {
                const int64_t of_head = int64_t(h) * head_size * PANEL, at = h * most_tiles;
                Vec* d_k = d_keys().at + int64_t(tile) * d_keys().stride + of_head;
                mix_back(tile, tiles, head_size, d_weights + at, block.qkv + of_head, 3 * C * PANEL, d_k);
                mix_back(tile, tiles, head_size, block.weights + at, d_mixed + of_head, C * PANEL, d_k + C * PANEL);
            }
        if (tiles.across) turn_keys_back();
        outer(panels, F, block.hidden, C, d_x, d.of_layer(l, FEED_FORWARD_OUT), strip);
        outer(panels, C, block.normed_2, F, d_hidden, in.d_matrix.data(), strip);
        outer(panels, C, block.mixed, C, d_attended, d.of_layer(l, ATTENTION_OUT), strip);
        outer(panels, C, block.normed_1, 3 * C, d_qkv, qkv.d_matrix.data(), strip);
        if (d.of_layer(l, ATTENTION_OUT_BIAS)) {
            row_sums(panels, C, d_x, d.of_layer(l, FEED_FORWARD_OUT_BIAS));
            row_sums(panels, F, d_hidden, in.d_bias.data());
            row_sums(panels, C, d_attended, d.of_layer(l, ATTENTION_OUT_BIAS));
            row_sums(panels, 3 * C, d_qkv, qkv.d_bias.data());
        }
        for (int panel = 0; panel < panels; panel++) {
            const int64_t own = int64_t(panel) * C * PANEL;
            product<SET>(3 * C, d_qkv + 3 * own, qkv.weights().transposed(), nullptr, C, d_normed);
            norm_back(C, d_normed, block.normed_1 + own, block.inverse_1 + panel * PANEL, d_middle + own, d_x + own);
        }
    }

    // The group's part of the loss; leaves the gradient of the stream after the last block in d_x.
    float predict() {
        Vec loss[LANES] = {};
        const int panels = tiles.panels;
        for (int panel = 0; panel < panels; panel++) {
            const int64_t own = int64_t(panel) * C * PANEL;
            Vec *z = logits + int64_t(panel) * V * PANEL, *inverse = final_inverse + panel * PANEL;
            norm(C, x + own, final_normed + own, inverse);
            product<SET>(C, final_normed + own, head.weights(), head.bias.data(), V, z);
            loss[0] += cross_entropy(panel, z);
            product<SET>(V, z, head.weights().transposed(), nullptr, C, d_normed);
            norm_back(C, d_normed, final_normed + own, inverse, nullptr, d_x + own);
        }
        outer(panels, C, final_normed, V, logits, head.d_matrix.data(), strip);
        row_sums(panels, V, logits, head.d_bias.data());
        return lane_sums(loss)[0];
    }
    // The weighted loss of one panel; turns its logits into their gradient.
    Vec cross_entropy(int panel, Vec* z) const {
        const Vec* w = weight + panel * PANEL;
        const int32_t* right = target.data() + panel * PANEL * LANES;
        Vec most[PANEL], sum[PANEL] = {}, loss = {};
        for (int i = 0; i < PANEL; i++) most[i] = z[i];
        for (int v = 1; v < V; v++)
            for (int i = 0; i < PANEL; i++) most[i] = larger(most[i], z[v * PANEL + i]);
        for (int i = 0; i < PANEL; i++)
            for (int l = 0; l < LANES; l++) loss[l] -= w[i][l] * (z[right[i * LANES + l] * PANEL + i][l] - most[i][l]);
        for (int v = 0; v < V; v++)
            for (int i = 0; i < PANEL; i++) {
                Vec e = exponential(z[v * PANEL + i] - most[i]);
                z[v * PANEL + i] = e;
                sum[i] += e;
            }
        for (int i = 0; i < PANEL; i++) {
            loss += w[i] * logarithm(sum[i]);
            sum[i] = w[i] / sum[i];
        }
        for (int v = 0; v < V; v++)
            for (int i = 0; i < PANEL; i++) z[v * PANEL + i] *= sum[i];
        for (int i = 0; i < PANEL; i++)
            for (int l = 0; l < LANES; l++) z[right[i * LANES + l] * PANEL + i][l] -= w[i][l];
        return loss;
    }

    // Write some texts side by side, panel by panel. A panel's draft tokens are processed, and its keys and values are
    // kept. Choices after a wrong draft token depend on it, so the panel is processed again with that token corrected.
    // A panel without mistakes costs one forward pass, another one up to PANEL of them.
    void write(Draft* texts, int given, int64_t width, int64_t end) {
        auto begins_before = [&](int64_t place) {
            return std::any_of(texts, texts + given, [&](const Draft& text) { return text.begin < place; });
        };
        for (int panel = 0; panel * PANEL + 1 < width && begins_before(width); panel++)
            for (bool again = true; again;) {
                for (int t = panel * PANEL; t < (panel + 1) * PANEL; t++)
                    for (int l = 0; l < LANES; l++)
                        token[t * LANES + l] = int32_t(texts[l < given ? l : 0].tokens[std::min<int64_t>(t, width - 1)]);
                embed(panel);
                for (size_t i = 0; i < blocks.size(); i++) {
                    project(int(i % s.n_layer), blocks[i], panel);
                    complete(int(i % s.n_layer), blocks[i], panel, keys(blocks[i]));
                }
                if (!begins_before((panel + 1) * PANEL + 1)) break;  // Questions alone.
                Ints choice[PANEL];
                choose(panel, choice);
                again = false;
                for (int l = 0; l < given; l++) again |= accept(texts[l], l, panel, choice, width, end);
            }
    }
    // The likeliest token after each position of a panel.
    void choose(int panel, Ints* choice) {
        const int64_t own = int64_t(panel) * C * PANEL;
        norm(C, x + own, final_normed + own, final_inverse + panel * PANEL);
        product<SET>(C, final_normed + own, head.weights(), head.bias.data(), V, logits);
        for (int i = 0; i < PANEL; i++) {
            Vec most = logits[i];
            choice[i] = Ints{};
            for (int v = 1; v < V; v++) {
                const Vec& z = logits[v * PANEL + i];
                choice[i] = z > most ? Ints{} + v : choice[i];
                most = larger(most, z);
            }
        }
    }
    // Take one text's choices up to the first wrong token of its draft; returns whether the panel must be processed again.
    static bool accept(Draft& text, int lane, int panel, const Ints* choice, int64_t width, int64_t end) {
        for (int i = 0; i < PANEL; i++) {
            const int64_t place = panel * PANEL + i + 1, chosen = choice[i][lane];
            if (place < text.begin || place >= width) continue;
            const bool right = text.tokens[place] == chosen;
            text.tokens[place] = chosen;
            text.begin = chosen == end ? width : place + 1;
            if (!right && text.begin < width) return i + 1 < PANEL;
        }
        return false;
    }
};

}  // namespace

// ---------------------------------------------------------------------------------------------------------------------
// Training and writing

extern "C" {

struct Text {  // Where a run's windows come from; see training_windows.py.
    const uint16_t* tokens;
    const uint8_t* answer;  // nullptr: all tokens count.
    const int64_t* begins;  // Where windows may begin; nullptr: at the first `count` tokens.
    int64_t count, key;
};
struct Optimizer {  // See optimizer.py; `decayed` is 1 where weight decay applies, `trained` is 0 where a run is frozen.
    float clip, first_weight, second_decay, second_weight;
    const float *decayed, *trained;  // `trained` may be nullptr: then all parameters are trained.
};
struct State {  // A run's parameters, their moments, and the sum of its losses.
    float *parameters, *first, *second, *loss;
};

}  // extern "C"

namespace {

// The windows of a step: splitmix64 of (key, step, row), as WindowSampler.draw.
void draw(const Text& text, int64_t step, int batch, std::vector<Window>& windows) {
    windows.clear();
    for (int row = 0; row < batch; row++) {
        uint64_t z = uint64_t(text.key) + uint64_t(step * batch + row + 1) * 0x9E3779B97F4A7C15u;
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
        z = (z ^ z >> 27) * 0x94D049BB133111EBu;
        int64_t at = int64_t((z ^ z >> 31) >> 2) % text.count;
        if (text.begins) at = text.begins[at];
        windows.push_back({text.tokens + at, text.answer ? text.answer + at : nullptr, 0});
    }
}

// adamw_step of optimizer.py on one run. `sizes`: the rate, the decay, and the root of the second bias correction.
void adamw(int64_t n, float* g, const State& run, const Optimizer& o, const float* sizes) {
    Vec squares = {};
    for (int64_t i = 0; i < n; i += LANES) {  // n is a multiple of 16.
        Vec part;
        memcpy(&part, g + i, sizeof part);
        if (o.trained) {
            Vec trained;
            memcpy(&trained, o.trained + i, sizeof trained);
            part *= trained;
            memcpy(g + i, &part, sizeof part);
        }
        squares = fma(part, part, squares);
    }
    Vec of[LANES] = {squares};
    float shrink = o.clip / (std::sqrt(lane_sums(of)[0]) + CLIP_EPSILON);
    if (shrink > 1.f) shrink = 1.f;  // NaN stays.
    const float rate = sizes[0], decay = sizes[1], root = sizes[2], weight = o.first_weight;
    for (int64_t i = 0; i < n; i++) {
        const float part = g[i] * shrink;
        const float decayed = o.trained ? o.decayed[i] * o.trained[i] : o.decayed[i];
        const float ahead = part - run.first[i];  // From whichever end is nearer, as torch.lerp.
        run.first[i] = weight < .5f ? run.first[i] + weight * ahead : part - (1 - weight) * ahead;
        run.second[i] = run.second[i] * o.second_decay + o.second_weight * part * part;
        const float step = run.first[i] / (std::sqrt(run.second[i]) / root + ADAM_EPSILON) * rate;
        run.parameters[i] = run.parameters[i] * (1 - decay * decayed) - step;
    }
}

}  // namespace

extern "C" {

// Train steps first .. last - 1 of one run; `sizes` are three numbers a step. Adds the steps' losses to the run's.
// Returns 0 if there is no memory for it.
int32_t train(const Shape* shape, int32_t batch, const Text* text, const Optimizer* optimizer, const State* run,
              int64_t first, int64_t last, const float* sizes) try {
    Model model(*shape);
    std::vector<float> g(shape->parameters);
    std::vector<Window> windows;
    for (int64_t step = first; step < last; step++, sizes += 3) {
        draw(*text, step, batch, windows);
        *run->loss += model.loss(run->parameters, windows, g.data());
        adamw(shape->parameters, g.data(), *run, *optimizer, sizes);
    }
    return 1;
} catch (const std::bad_alloc&) {
    return 0;
}

// Write `count` texts of `width` tokens in place, each from its own `begins` on; see Model::write. A text whose `begins`
// is `width` stays. Returns 0 if there is no memory for it.
int32_t write_texts(const Shape* shape, const float* parameters, int64_t count, int64_t width, int64_t* tokens,
                    const int64_t* begins, int64_t end) try {
    std::vector<Draft> texts;
    for (int64_t i = 0; i < count; i++, tokens += width)
        if (begins[i] < width)
            texts.push_back({tokens, begins[i], std::find(tokens + begins[i], tokens + width, end) - tokens});
    Model(*shape).write(parameters, texts, width, end);
    return 1;
} catch (const std::bad_alloc&) {
    return 0;
}

// The mean loss of a model on `batch` windows of block + 1 tokens, and its gradient.
void differentiate(const Shape* shape, const float* parameters, int32_t batch, const uint16_t* tokens,
                   const uint8_t* counted, float* loss, float* gradient) {
    std::vector<Window> windows;
    for (int64_t row = 0, at = 0; row < batch; row++, at += shape->block + 1)
        windows.push_back({tokens + at, counted + at, 0});
    *loss = Model(*shape).loss(parameters, windows, gradient);
}

}  // extern "C"

#if defined(__x86_64__) && defined(__clang__)
#pragma clang attribute pop
#endif
