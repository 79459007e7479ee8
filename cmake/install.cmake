# Installs the library, its headers, a CMake package and a pkg-config file. Their paths to one
# another are relative, so that the installed tree can be moved.
include(CMakePackageConfigHelpers)

if(FARWRITE_PYTHON)
  # The wheel keeps everything in the folder of the Python package.
  set(libdir farwrite)
  set(includedir farwrite/include)
  set(cmakedir farwrite/cmake)
  set(pkgconfigdir farwrite/pkgconfig)
  # The dynamic loader does not search that folder unless the program names it.
  set(FARWRITE_PC_RPATH "-Wl,-rpath,\${libdir} ")
else()
  include(GNUInstallDirs)
  set(libdir ${CMAKE_INSTALL_LIBDIR})
  set(includedir ${CMAKE_INSTALL_INCLUDEDIR})
  set(cmakedir ${CMAKE_INSTALL_LIBDIR}/cmake/farwrite)
  set(pkgconfigdir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
  set(FARWRITE_PC_RPATH "")
  # While the major version is 0, a minor version may break the ABI.
  set_target_properties(farwrite PROPERTIES
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
endif()

install(TARGETS farwrite EXPORT farwrite
  LIBRARY DESTINATION ${libdir} INCLUDES DESTINATION ${includedir})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ DESTINATION ${includedir})

install(EXPORT farwrite NAMESPACE farwrite:: FILE farwriteTargets.cmake DESTINATION ${cmakedir})
configure_package_config_file(cmake/farwriteConfig.cmake.in farwriteConfig.cmake
  INSTALL_DESTINATION ${cmakedir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(farwriteConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/farwriteConfig.cmake ${PROJECT_BINARY_DIR}/farwriteConfigVersion.cmake
  DESTINATION ${cmakedir})

# A relative path between two folders, of which GNUInstallDirs allows absolute ones.
function(farwrite_path_between from to result)
  cmake_path(ABSOLUTE_PATH from BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX})
  cmake_path(ABSOLUTE_PATH to BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX})
  cmake_path(RELATIVE_PATH to BASE_DIRECTORY ${from})
  set(${result} ${to} PARENT_SCOPE)
endfunction()

farwrite_path_between(${pkgconfigdir} ${libdir} FARWRITE_PC_LIBDIR)
farwrite_path_between(${pkgconfigdir} ${includedir} FARWRITE_PC_INCLUDEDIR)
configure_file(cmake/farwrite.pc.in farwrite.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/farwrite.pc DESTINATION ${pkgconfigdir})
