/// @file
/// FARWRITE_BEGIN and FARWRITE_END: the namespace `farwrite`.
///
/// The C++ interface is compiled into each program, on top of the C ABI. The inline namespace
/// contains the version and the standard library that it was compiled with, so that parts of one
/// process that differ in these do not call each other's functions. The library compiles the same
/// plain data in the namespace `farwrite` itself.
#pragma once

#if !defined(FARWRITE_LIBRARY) && __cplusplus < 201703L
#error "the C++ interface of Farwrite needs C++17 (-std=c++17); the C interface is farwrite/c_api.h"
#endif

#include <cstddef>

#if defined(FARWRITE_LIBRARY)
#define FARWRITE_BEGIN namespace farwrite {
#define FARWRITE_END }
#else
#if defined(_LIBCPP_VERSION)
#define FARWRITE_INTERFACE v0_1_0_libcxx
#elif defined(_GLIBCXX_USE_CXX11_ABI) && !_GLIBCXX_USE_CXX11_ABI
#define FARWRITE_INTERFACE v0_1_0_libstdcxx_old
#else
#define FARWRITE_INTERFACE v0_1_0_libstdcxx
#endif
/// Begins the namespace `farwrite`.
#define FARWRITE_BEGIN \
  namespace farwrite { \
  inline namespace FARWRITE_INTERFACE {
/// Ends it.
#define FARWRITE_END \
  }                  \
  }
#endif
