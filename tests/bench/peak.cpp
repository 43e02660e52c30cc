// Multiply-adds without memory, to know what a core could do: twelve independent sums of eight lanes.
#include <cstdint>
#include <immintrin.h>

extern "C" __attribute__((target("avx2,fma"))) float multiply_adds(int64_t rounds) {
    __m256 sum[12], a = _mm256_set1_ps(.5f), b = _mm256_set1_ps(1.f);
    for (auto& each : sum) each = b;
    for (; rounds; rounds--) {
        for (auto& each : sum) each = _mm256_fmadd_ps(each, a, b);
        asm volatile("" : "+x"(a), "+x"(b));  // Every round is computed.
    }
    for (int i = 1; i < 12; i++) sum[0] = _mm256_add_ps(sum[0], sum[i]);
    return _mm256_cvtss_f32(sum[0]);
}
