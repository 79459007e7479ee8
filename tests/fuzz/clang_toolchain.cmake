# Debian's clang 19 with libFuzzer: the system's, or what tools/fetch_debs.sh unpacked. The preset
# "fuzz" sets LD_LIBRARY_PATH for the latter.
find_program(FARWRITE_CLANG clang++-19
  PATHS ${CMAKE_CURRENT_LIST_DIR}/../../.cache/debs/usr/bin /usr/bin
  NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH)
if(NOT FARWRITE_CLANG)
  message(FATAL_ERROR "clang++-19 is missing; `make fuzz` fetches it")
endif()
set(CMAKE_CXX_COMPILER ${FARWRITE_CLANG})
# There are no modules here, and Debian has clang's scanner for them in a package of its own.
set(CMAKE_CXX_SCAN_FOR_MODULES OFF)
