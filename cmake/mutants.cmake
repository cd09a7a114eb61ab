# Mutants: the program with a fault put in on purpose, by editing a copy of a source file at configure time. A test that a mutant passes
# is no test. The edit quotes the text it replaces; text that is no longer in the file stops the configuration, lest a mutant silently
# become the original.

# edit_source(NAME FILE FROM TO [FROM TO]...): writes src/FILE with every FROM replaced by TO to <build>/mutants/NAME/FILE. Editing an
# edited file again adds to it.
function(edit_source NAME FILE)
  set(source ${CMAKE_SOURCE_DIR}/src/${FILE})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
  file(READ ${source} text)
  math(EXPR last "${ARGC} - 1")
  foreach(i RANGE 2 ${last} 2)
    math(EXPR j "${i} + 1")
    string(FIND "${text}" "${ARGV${i}}" at)
    if(at EQUAL -1)
      message(FATAL_ERROR "mutant ${NAME}: src/${FILE} no longer says: ${ARGV${i}}")
    endif()
    string(REPLACE "${ARGV${i}}" "${ARGV${j}}" text "${text}")
  endforeach()
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/mutants/${NAME}/${FILE} CONTENT "${text}" @ONLY)
endfunction()

# mutant(PROGRAM NAME FILE LIBS...): the executable PROGRAM from src/FILE as edited under NAME (or, where only headers were edited,
# compiled against those), linked before the libraries, whose own copy of FILE the linker then leaves out.
function(mutant PROGRAM NAME FILE)
  set(edited ${CMAKE_BINARY_DIR}/mutants/${NAME})
  if(EXISTS ${edited}/${FILE})
    add_executable(${PROGRAM} ${edited}/${FILE})
  else()
    # A copy, so that nothing of the original's own folder is found before the edited headers.
    configure_file(${CMAKE_SOURCE_DIR}/src/${FILE} ${edited}/${FILE} COPYONLY)
    add_executable(${PROGRAM} ${edited}/${FILE})
  endif()
  target_include_directories(${PROGRAM} BEFORE PRIVATE ${edited})
  target_link_libraries(${PROGRAM} PRIVATE ${ARGN})
endfunction()
