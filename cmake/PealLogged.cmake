# SPDX-License-Identifier: Apache-2.0
# cmake -DLOG=FILE -P PealLogged.cmake -- COMMAND...: what the command says goes to the file and,
# where it fails, to the terminal.

set(command "")
set(found FALSE)
foreach(i RANGE ${CMAKE_ARGC})
    if(found AND i LESS CMAKE_ARGC)
        list(APPEND command "${CMAKE_ARGV${i}}")
    elseif("${CMAKE_ARGV${i}}" STREQUAL "--")
        set(found TRUE)
    endif()
endforeach()
execute_process(COMMAND ${command} OUTPUT_FILE ${LOG} ERROR_FILE ${LOG} RESULT_VARIABLE code)
if(NOT code EQUAL 0)
    file(READ ${LOG} text)
    message(FATAL_ERROR "${text}")
endif()
