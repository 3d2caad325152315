# Libraries come from the system's packages, or, for PAWL_PARTS=trainer on a machine without them, as headers
# from the folder PAWL_DEPS (include/nlohmann, include/tl, lib and include of Catch2 and oneDNN).
if(PAWL_DEPS)
  list(PREPEND CMAKE_PREFIX_PATH ${PAWL_DEPS})
  include_directories(SYSTEM ${PAWL_DEPS}/include)
endif()
find_package(Threads REQUIRED)
if(PAWL_TESTS)
  find_package(Catch2 3.4 REQUIRED)
endif()
# oneDNN is optional. Not by its CMake package: Debian's demands OpenCL, which a CPU build does not need.
find_path(PAWL_DNNL_INCLUDE dnnl.h HINTS ${PAWL_DEPS}/include)
find_library(PAWL_DNNL_LIBRARY dnnl HINTS ${PAWL_DEPS}/lib)

if(PAWL_PARTS STREQUAL "all")
  find_package(OpenSSL 3 REQUIRED)
  find_package(yaml-cpp REQUIRED)
  find_package(cpprestsdk REQUIRED)
endif()
