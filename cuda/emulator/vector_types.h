// CUDA's vector types: one instruction moves all of their bytes, because they are aligned to their
// size.
#pragma once

#define VITRINE_VECTOR_TYPES(T, name)                                   \
  struct name##1 {                                                      \
    T x;                                                                \
  };                                                                    \
  struct alignas(2 * sizeof(T)) name##2 {                               \
    T x, y;                                                             \
  };                                                                    \
  struct name##3 {                                                      \
    T x, y, z;                                                          \
  };                                                                    \
  struct alignas(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) name##4 {     \
    T x, y, z, w;                                                       \
  };                                                                    \
  constexpr name##1 make_##name##1(T x) { return {x}; }                 \
  constexpr name##2 make_##name##2(T x, T y) { return {x, y}; }         \
  constexpr name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; } \
  constexpr name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }

VITRINE_VECTOR_TYPES(signed char, char)
VITRINE_VECTOR_TYPES(unsigned char, uchar)
VITRINE_VECTOR_TYPES(short, short)
VITRINE_VECTOR_TYPES(unsigned short, ushort)
VITRINE_VECTOR_TYPES(int, int)
VITRINE_VECTOR_TYPES(unsigned, uint)
VITRINE_VECTOR_TYPES(long, long)
VITRINE_VECTOR_TYPES(unsigned long, ulong)
VITRINE_VECTOR_TYPES(long long, longlong)
VITRINE_VECTOR_TYPES(unsigned long long, ulonglong)
VITRINE_VECTOR_TYPES(float, float)
VITRINE_VECTOR_TYPES(double, double)
#undef VITRINE_VECTOR_TYPES
