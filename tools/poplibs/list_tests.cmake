# Writes the tests that a CMakeLists.txt of PopLibs declares, one a line, without building anything:
#
#     cmake -DPOPLIBS=SOURCE -DFOLDER=tests/popops -DOUTPUT=FILE -P list_tests.cmake
#
# A line has fields between tabs: executable NAME SOURCE...; test NAME VARIANTS SUITES ARGUMENT... (the first argument is
# the executable). The functions stand in for those of Graphcore's unpublished build modules, and for CMake's own that a
# script cannot use. A folder's CMakeLists.txt is read as it is, with the variants that the topmost one defines.
cmake_minimum_required(VERSION 3.18)

set(CMAKE_SOURCE_DIR "${POPLIBS}")
set(IPUMODEL_VARIANTS "IpuModel2")
set(CMAKE_INSTALL_LIBDIR "lib")
set(SIM_VARIANTS "Sim2")
set(SIMCPP_VARIANTS "")
set(CPU_VARIANTS "Cpu")
set(DEFAULT_TEST_VARIANTS "IpuModel2;Hw")
set(TimesOutOnSim "${DEFAULT_TEST_VARIANTS}")
set(TimesOutOnSimCpp "${DEFAULT_TEST_VARIANTS}")

function(print_line)
  list(JOIN ARGN "\t" line)
  string(REPLACE "\n" " " line "${line}")
  file(APPEND "${OUTPUT}" "${line}\n")
endfunction()

function(executable name)
  set(sources)
  foreach(source ${ARGN})
    if(NOT source MATCHES "^(EXCLUDE_FROM_ALL|.*\\.hpp)$")
      get_filename_component(source "${source}" ABSOLUTE BASE_DIR "${CMAKE_CURRENT_SOURCE_DIR}")
      list(APPEND sources "${source}")
    endif()
  endforeach()
  print_line(executable "${name}" ${sources})
endfunction()
macro(add_executable)
  executable(${ARGN})
endmacro()
macro(add_tool)
  executable(${ARGN})
endmacro()
macro(add_test_executable)
  executable(${ARGN})
endmacro()
macro(add_multi_target_test_executable)
  executable(${ARGN})
endmacro()

# Boost's tests: their own executable, and the device behind "--".
function(add_unit_test name)
  cmake_parse_arguments(A "" "" "SUITES;VARIANTS;PROPERTIES;LABELS;DEPENDS" ${ARGN})
  executable("${name}" ${A_UNPARSED_ARGUMENTS})
  if(NOT A_VARIANTS)
    set(A_VARIANTS ${DEFAULT_TEST_VARIANTS})
  endif()
  list(JOIN A_VARIANTS "," variants)
  list(JOIN A_SUITES "," suites)
  print_line(unit_test "${name}" "${variants}" "${suites}" "${name}")
endfunction()

function(add_multitarget_test)
  cmake_parse_arguments(A "" "NAME" "COMMAND;VARIANTS;PROPERTIES;LABELS;DEPENDS;WORKING_DIRECTORY" ${ARGN})
  if(NOT A_VARIANTS)
    set(A_VARIANTS ${DEFAULT_TEST_VARIANTS})
  endif()
  list(JOIN A_VARIANTS "," variants)
  print_line(test "${A_NAME}" "${variants}" "-" ${A_COMMAND})
endfunction()
macro(add_multitarget_test_with_log)
  add_multitarget_test(${ARGN})
endmacro()

function(add_test)
  cmake_parse_arguments(A "" "NAME" "COMMAND;WORKING_DIRECTORY" ${ARGN})
  print_line(test "${A_NAME}" "NoTarget" "-" ${A_COMMAND})
endfunction()

macro(add_subdirectory folder)
  set(outer "${CMAKE_CURRENT_SOURCE_DIR}")
  set(CMAKE_CURRENT_SOURCE_DIR "${outer}/${folder}")
  read_folder("${CMAKE_CURRENT_SOURCE_DIR}")
  set(CMAKE_CURRENT_SOURCE_DIR "${outer}")
endmacro()
function(read_folder folder)
  set(CMAKE_CURRENT_SOURCE_DIR "${folder}")
  # A script has no targets, and popsparse is built.
  file(READ "${folder}/CMakeLists.txt" text)
  string(REGEX REPLACE "if *\\(TARGET popsparse\\)" "if(TRUE)" text "${text}")
  string(SHA1 name "${folder}")
  file(WRITE "${OUTPUT}.${name}.cmake" "${text}")
  include("${OUTPUT}.${name}.cmake")
  file(REMOVE "${OUTPUT}.${name}.cmake")
endfunction()

# What says nothing about a test.
foreach(name
        add_library configure_file add_custom_command add_custom_target add_dependencies add_vertex_verifier_test install
        set_tests_properties target_compile_definitions target_compile_options target_include_directories
        target_link_libraries TargetAddMarchExtensions find_package)
  cmake_language(EVAL CODE "macro(${name})\nendmacro()")
endforeach()

read_folder("${POPLIBS}/${FOLDER}")
