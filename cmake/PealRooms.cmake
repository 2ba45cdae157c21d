# SPDX-License-Identifier: Apache-2.0
# Rooms (directories of sources with an include path of their own) and the
# libraries made of them.

set(PEAL_ROOMS "" CACHE INTERNAL "")

# peal_room(name NEEDS room...): the include path of a room, as target
# peal_room_<name>, whether or not the room has sources yet. `needs` is recorded
# for tests/scripts/layers.sh, which tries every wrong include.
function(peal_room name)
    cmake_parse_arguments(arg "" "" "NEEDS" ${ARGN})
    add_library(peal_room_${name} INTERFACE)
    target_include_directories(peal_room_${name} INTERFACE
        ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/${name})
    foreach(need IN LISTS arg_NEEDS)
        target_include_directories(peal_room_${name} INTERFACE ${PROJECT_SOURCE_DIR}/${need})
    endforeach()
    set(PEAL_ROOM_NEEDS_${name} "${arg_NEEDS}" CACHE INTERNAL "")
    set(rooms ${PEAL_ROOMS})
    list(APPEND rooms ${name})
    set(PEAL_ROOMS "${rooms}" CACHE INTERNAL "")
endfunction()

# One object library a room; a room without sources has none.
function(peal_objects)
    foreach(room IN LISTS ARGN)
        file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${room}/*.c)
        if(NOT sources)
            continue()
        endif()
        if(room STREQUAL lua AND PEAL_HAVE_LUA)
            list(FILTER sources EXCLUDE REGEX "/absent\\.c$")
        elseif(room STREQUAL lua)
            list(FILTER sources INCLUDE REGEX "/absent\\.c$")
        endif()
        add_library(peal_${room} OBJECT ${sources})
        target_link_libraries(peal_${room} PRIVATE peal_warnings peal_room_${room})
    endforeach()
endfunction()

# peal_library(name MAP file ROOMS room...): the shared library <name>, which exports
# what the map names and no more, and <name>-static from the same objects.
function(peal_library name)
    cmake_parse_arguments(arg "" "MAP" "ROOMS" ${ARGN})
    set(objects "")
    foreach(room IN LISTS arg_ROOMS)
        if(TARGET peal_${room})
            list(APPEND objects $<TARGET_OBJECTS:peal_${room}>)
        endif()
    endforeach()
    add_library(${name} SHARED ${objects})
    add_library(${name}-static STATIC ${objects})
    set(map ${PROJECT_SOURCE_DIR}/${arg_MAP})
    target_link_options(${name} PRIVATE "LINKER:--version-script=${map}")
    # Sanitizer runtimes are resolved in the executable, so only plain builds can ask
    # that nothing be left undefined. It is this that holds peal-rt to its rooms.
    if(NOT PEAL_SANITIZE AND NOT PEAL_FUZZ)
        target_link_options(${name} PRIVATE "LINKER:-z,defs")
    endif()
    set_target_properties(${name} PROPERTIES
        VERSION ${PROJECT_VERSION} SOVERSION 0.1 LINK_DEPENDS ${map})
    set_target_properties(${name}-static PROPERTIES OUTPUT_NAME ${name})
    foreach(target ${name} ${name}-static)
        set_target_properties(${target} PROPERTIES LINKER_LANGUAGE C)
        target_include_directories(${target} PUBLIC
            $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
            $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
        target_link_libraries(${target} PRIVATE Threads::Threads nettle m)
        if(PEAL_HAVE_VERBS)
            target_link_libraries(${target} PRIVATE ibverbs)
        endif()
        add_library(peal::${target} ALIAS ${target})
    endforeach()
endfunction()
