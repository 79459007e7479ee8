# FARWRITE_SANITIZE compiles and links all targets of a project with a sanitizer. Our targets add
# FARWRITE_SANITIZER_WARNINGS to their warnings.
set(FARWRITE_SANITIZE "" CACHE STRING "Value of -fsanitize=, empty for none")
set(FARWRITE_SANITIZER_WARNINGS)

if(FARWRITE_SANITIZE)
  add_compile_options(
    -fsanitize=${FARWRITE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${FARWRITE_SANITIZE})
  # What a sanitizer prints needs lines and no more. Beside -O1 -g this compiles in half to two thirds
  # of the time; it runs as fast under asan, and about a third slower under tsan.
  set(CMAKE_CXX_FLAGS_DEBUG "-Og -g1")
  if(FARWRITE_SANITIZE MATCHES undefined)
    # This check opens a pipe to probe memory, and takes a test that runs out of descriptors for a
    # broken object.
    add_compile_options(-fno-sanitize=vptr)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC's flow analysis loses its way in instrumented code; the release build keeps these.
    list(APPEND FARWRITE_SANITIZER_WARNINGS -Wno-maybe-uninitialized -Wno-array-bounds)
  endif()
  if(FARWRITE_SANITIZE MATCHES thread)
    # GCC says that TSan does not model std::atomic_thread_fence. It is a remark, not a finding.
    list(APPEND FARWRITE_SANITIZER_WARNINGS -Wno-tsan)
  endif()
endif()

# Threads that lock in the wrong order abort (src/core/lock_rank.h). TSan reports wrong orders
# itself, and the check makes it a third slower.
if(NOT FARWRITE_SANITIZE MATCHES thread)
  add_compile_definitions($<$<CONFIG:Debug>:FARWRITE_CHECK_LOCK_ORDER>)
endif()
