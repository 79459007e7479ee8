# Unity builds: most of compiling a small file is its headers, and the sources of a group share them.
#
# A group holds neighbours of one folder, so that several processors share the work and a changed
# source compiles few others. Names in unnamed namespaces are therefore unique in a folder, and a macro
# ends with the file that defines it. -DFARWRITE_UNITY=OFF compiles each source alone, as
# clang-tidy does, which shows a missing #include.
#
# farwrite_unity(TARGET GROUP): compiles TARGET's sources of this checkout in groups of at most GROUP.
# Called in the folder that makes TARGET, after its last source.

# What needs options of its own, is for one kind of processor, defines macros that its headers read, or
# states for other handles what its neighbours state.
set(FARWRITE_UNITY_ALONE
  src/box/arithmetic_avx2.cc
  src/box/arithmetic_generic.cc
  src/c_api/status.cc
  src/device/fabrics.cc
  src/memory/copy_aarch64.cc
  src/memory/copy_x86.cc
  tests/fault/matrix_c_rows.cc
  tests/fault/matrix_rows.cc)
list(TRANSFORM FARWRITE_UNITY_ALONE PREPEND ${PROJECT_SOURCE_DIR}/)

function(farwrite_unity target group)
  if(NOT FARWRITE_UNITY)
    return()
  endif()
  # Relative paths (from CMake 4.0 on): clones share a compiler cache.
  set_target_properties(${target} PROPERTIES
    UNITY_BUILD ON UNITY_BUILD_MODE GROUP UNITY_BUILD_RELOCATABLE ON)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # A type of the unnamed namespace is in an included file here, which is no header.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
  endif()

  get_target_property(sources ${target} SOURCES)
  list(REMOVE_ITEM sources ${FARWRITE_UNITY_ALONE})
  set(folders)
  foreach(source IN LISTS sources)
    cmake_path(IS_PREFIX PROJECT_SOURCE_DIR "${source}" ours)
    if(ours AND source MATCHES "\\.cc$")
      cmake_path(GET source PARENT_PATH folder)
      cmake_path(RELATIVE_PATH folder BASE_DIRECTORY "${PROJECT_SOURCE_DIR}")
      string(MAKE_C_IDENTIFIER "${folder}" folder)
      list(APPEND folders ${folder})
      list(APPEND in_${folder} "${source}")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES folders)

  # As few groups as this allows, and all of a size.
  foreach(folder IN LISTS folders)
    list(LENGTH in_${folder} count)
    math(EXPR groups "(${count} + ${group} - 1) / ${group}")
    set(number 0)
    foreach(source IN LISTS in_${folder})
      math(EXPR part "${number} * ${groups} / ${count}")
      set_source_files_properties("${source}" PROPERTIES UNITY_GROUP ${folder}_${part})
      math(EXPR number "${number} + 1")
    endforeach()
  endforeach()
endfunction()
