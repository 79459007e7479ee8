# Makes what zig links unwind with the system's libgcc_s.so.1, as all else in a process does.
#
# zig would link an unwinder into each library. When Python before 3.14 ends, pthread_exit() unwinds
# threads with libgcc_s, which calls our libraries' frames with a state that another unwinder cannot
# read. The link needs names and versions alone, so that a stand-in serves on any machine and for
# any processor.
if(FARWRITE_ZIG)
  add_library(farwrite_gcc_s SHARED ${CMAKE_CURRENT_LIST_DIR}/gcc_s.cc)
  set_target_properties(farwrite_gcc_s PROPERTIES OUTPUT_NAME gcc_s SOVERSION 1
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/stand-in
    LINK_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/gcc_s.map)
  target_link_options(farwrite_gcc_s PRIVATE -nostdlib
    -Wl,--version-script=${CMAKE_CURRENT_LIST_DIR}/gcc_s.map)
endif()

# farwrite_shared_unwinder(TARGET): by an option, because CMake would search the folder of a library
# at run time.
function(farwrite_shared_unwinder target)
  if(FARWRITE_ZIG)
    add_dependencies(${target} farwrite_gcc_s)
    target_link_options(${target} PRIVATE $<TARGET_FILE:farwrite_gcc_s>)
  endif()
endfunction()
