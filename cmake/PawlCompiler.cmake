set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

find_program(PAWL_CCACHE ccache)
if(PAWL_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${PAWL_CCACHE})
endif()
# All presets compile several files as one: most of a file's time goes into templates that its neighbours use too, and
# the whole takes a third. Small enough that two processors have equal shares. That each file also stands alone is a
# level of ./dev test --long.
set(CMAKE_UNITY_BUILD_BATCH_SIZE 10)
find_program(PAWL_MOLD mold)
if(PAWL_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

# Every library and program of ours goes through pawl_target, so that warnings are errors in all of our
# code and in nothing else.
function(pawl_target name)
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_compile_options(${name} PRIVATE -Wall -Wextra -Wpedantic -Werror -Wshadow -Wnon-virtual-dtor -Wold-style-cast
                         -Wno-missing-field-initializers
                         # What GCC 12 sees at -O3 and is not there: overlaps in "a" + std::string (its bug 105651), and
                         # strings not begun in what is returned.
                         -Wno-restrict -Wno-maybe-uninitialized)
  if(CMAKE_UNITY_BUILD)
    # The files of a batch are included, so that the compiler takes their anonymous namespaces for a header's.
    target_compile_options(${name} PRIVATE -Wno-subobject-linkage)
  endif()
  if(PAWL_SANITIZE)
    # Four checks of UBSan are left out: they make a file of templates compile a third longer, and a null pointer or an
    # object that is too small stops the program under ASan all the same.
    target_compile_options(${name} PRIVATE -fsanitize=${PAWL_SANITIZE} -fno-omit-frame-pointer
                           -fno-sanitize-recover=undefined -fno-sanitize=null,alignment,object-size,vptr)
    target_link_options(${name} PUBLIC -fsanitize=${PAWL_SANITIZE})
    target_compile_options(${name} PRIVATE -Wno-tsan)
  endif()
endfunction()

function(pawl_library name)
  add_library(${name} STATIC ${ARGN})
  pawl_target(${name})
endfunction()

function(pawl_executable name)
  add_executable(${name} ${ARGN})
  pawl_target(${name})
endfunction()
