# A toolchain file: zig's Clang, which compiles for an old glibc and for other processors (make wheels).
#
#   FARWRITE_ZIG         the program zig
#   FARWRITE_ZIG_CXX     a program that runs `zig c++ -target TARGET`: a compiler of one word, which
#                        ccache takes for clang
#   FARWRITE_ZIG_CC      the same for C, which the tests alone need
#   FARWRITE_ZIG_TARGET  such as x86_64-linux-gnu.2.28: a processor, and the oldest glibc
set(CMAKE_SYSTEM_NAME Linux)
string(REGEX MATCH "^[^-]+" CMAKE_SYSTEM_PROCESSOR "${FARWRITE_ZIG_TARGET}")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES
  FARWRITE_ZIG FARWRITE_ZIG_CC FARWRITE_ZIG_CXX FARWRITE_ZIG_TARGET)

set(CMAKE_CXX_COMPILER "${FARWRITE_ZIG_CXX}")
if(FARWRITE_ZIG_CC)
  set(CMAKE_C_COMPILER "${FARWRITE_ZIG_CC}")
endif()

# `zig ar` and `zig ranlib` are two words, and CMake's own rules have room for one.
set(CMAKE_AR "${FARWRITE_ZIG}" CACHE FILEPATH "")
set(CMAKE_RANLIB "${FARWRITE_ZIG}" CACHE FILEPATH "")
set(CMAKE_CXX_ARCHIVE_CREATE "<CMAKE_AR> ar qc <TARGET> <LINK_FLAGS> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_APPEND "<CMAKE_AR> ar q <TARGET> <LINK_FLAGS> <OBJECTS>")
set(CMAKE_CXX_ARCHIVE_FINISH "<CMAKE_RANLIB> ranlib <TARGET>")

# No program strip knows every processor, and a machine without a compiler has none.
set(CMAKE_SHARED_LINKER_FLAGS_INIT -Wl,-s)
set(CMAKE_MODULE_LINKER_FLAGS_INIT -Wl,-s)
