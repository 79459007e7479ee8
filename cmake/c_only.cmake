# Installs the C interface alone, for a library whose C++ runtime is not that of its users' compiler:
# the C headers, and headers of the names of the C++ ones that refuse to be compiled.
set(FARWRITE_HAS_CXX FALSE)
set(FARWRITE_PC_INTERFACES "C alone")

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/farwrite DESTINATION ${includedir}
  FILES_MATCHING PATTERN "c_*.h")

file(GLOB headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/include/farwrite
  ${PROJECT_SOURCE_DIR}/include/farwrite/*.h)
list(FILTER headers EXCLUDE REGEX "^c_")
foreach(header IN LISTS headers)
  configure_file(cmake/refused_header.h.in refused/farwrite/${header} @ONLY)
endforeach()
install(DIRECTORY ${PROJECT_BINARY_DIR}/refused/farwrite DESTINATION ${includedir})
