# SPDX-License-Identifier: Apache-2.0
# What peal stands on. Required things stop the configuration; optional ones are
# told apart in one table, with what their absence costs.

set(peal_feature_rows "" CACHE INTERNAL "")

function(peal_feature name found cost)
    if(found)
        set(state "found")
        set(cost "")
    else()
        set(state "missing")
    endif()
    string(LENGTH "${name}" used)
    math(EXPR pad "16 - ${used}")
    string(REPEAT " " ${pad} fill)
    set(row "  ${name}${fill}${state}")
    if(cost)
        string(APPEND row "  ${cost}")
    endif()
    set(rows ${peal_feature_rows})
    list(APPEND rows "${row}")
    set(peal_feature_rows "${rows}" CACHE INTERNAL "")
endfunction()

function(peal_print_features)
    list(JOIN peal_feature_rows "\n" text)
    message(STATUS "peal ${PROJECT_VERSION}, what it was built with:\n${text}")
endfunction()

find_package(PkgConfig QUIET)
find_package(LibXml2 REQUIRED)
peal_feature(libxml2 TRUE "")

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
peal_feature(threads TRUE "")

# Compiled into base with every function static: nothing to link.
find_path(PEAL_XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
add_library(peal_xxhash INTERFACE)
target_include_directories(peal_xxhash SYSTEM INTERFACE ${PEAL_XXHASH_INCLUDE_DIR})
peal_feature(xxhash TRUE "")

find_path(PEAL_JANSSON_INCLUDE_DIR jansson.h REQUIRED)
find_library(PEAL_JANSSON_LIBRARY jansson REQUIRED)
add_library(peal_jansson INTERFACE)
target_include_directories(peal_jansson SYSTEM INTERFACE ${PEAL_JANSSON_INCLUDE_DIR})
target_link_libraries(peal_jansson INTERFACE ${PEAL_JANSSON_LIBRARY})
peal_feature(jansson TRUE "")

# HMAC-SHA-256, for ranks that meet over a network.
find_path(PEAL_NETTLE_INCLUDE_DIR nettle/hmac.h REQUIRED)
find_library(PEAL_NETTLE_LIBRARY nettle REQUIRED)
add_library(peal_nettle INTERFACE)
target_include_directories(peal_nettle SYSTEM INTERFACE ${PEAL_NETTLE_INCLUDE_DIR})
peal_feature(nettle TRUE "")

if(PEAL_TESTS)
    find_path(PEAL_CHECK_INCLUDE_DIR check.h)
    find_library(PEAL_CHECK_LIBRARY NAMES check_pic check)
    find_library(PEAL_SUBUNIT_LIBRARY subunit)
    if(PEAL_CHECK_INCLUDE_DIR AND PEAL_CHECK_LIBRARY)
        set(PEAL_HAVE_CHECK TRUE)
        add_library(peal_check INTERFACE)
        target_include_directories(peal_check SYSTEM INTERFACE ${PEAL_CHECK_INCLUDE_DIR})
        target_link_libraries(peal_check INTERFACE ${PEAL_CHECK_LIBRARY} Threads::Threads m)
        if(PEAL_SUBUNIT_LIBRARY)
            target_link_libraries(peal_check INTERFACE ${PEAL_SUBUNIT_LIBRARY})
        endif()
    endif()
    peal_feature(check "${PEAL_HAVE_CHECK}" "no unit tests")

    # A second opinion on the simulator.
    find_path(PEAL_SIMGRID_INCLUDE_DIR simgrid/engine.h)
    find_library(PEAL_SIMGRID_LIBRARY simgrid)
    if(PEAL_SIMGRID_INCLUDE_DIR AND PEAL_SIMGRID_LIBRARY)
        set(PEAL_HAVE_SIMGRID TRUE)
    endif()
    peal_feature(simgrid "${PEAL_HAVE_SIMGRID}" "the simulator is not compared with it")
endif()

# For device code, and for tests of what is declared of the driver; that is opened at run time.
option(PEAL_CUDA "Kernels for GPUs, where nvcc is found" ON)
if(PEAL_CUDA)
    find_package(CUDAToolkit QUIET)
    find_program(PEAL_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda
                 PATH_SUFFIXES bin)
else()
    set(CUDAToolkit_FOUND FALSE)
    unset(PEAL_NVCC CACHE)
endif()
peal_feature(cuda "${PEAL_NVCC}" "no device kernels: on GPUs only calls without an SM")

# RDMA between hosts. peal_verbs is empty where it is missing.
find_path(PEAL_VERBS_INCLUDE_DIR infiniband/verbs.h)
find_library(PEAL_VERBS_LIBRARY ibverbs)
add_library(peal_verbs INTERFACE)
set(PEAL_HAVE_VERBS FALSE)
if(PEAL_VERBS_INCLUDE_DIR AND PEAL_VERBS_LIBRARY)
    set(PEAL_HAVE_VERBS TRUE)
    target_include_directories(peal_verbs SYSTEM INTERFACE ${PEAL_VERBS_INCLUDE_DIR})
    target_compile_definitions(peal_verbs INTERFACE PEAL_HAVE_VERBS)
endif()
# Queue pairs that kernels post to; libmlx5 itself is opened at run time.
find_path(PEAL_MLX5DV_INCLUDE_DIR infiniband/mlx5dv.h)
if(PEAL_HAVE_VERBS AND PEAL_MLX5DV_INCLUDE_DIR)
    target_include_directories(peal_verbs SYSTEM INTERFACE ${PEAL_MLX5DV_INCLUDE_DIR})
    target_compile_definitions(peal_verbs INTERFACE PEAL_HAVE_MLX5DV)
endif()
peal_feature(ibverbs "${PEAL_HAVE_VERBS}" "hosts are connected by TCP alone")
if(PkgConfig_FOUND)
    pkg_check_modules(PEAL_PMIX QUIET pmix)
endif()
peal_feature(pmix "${PEAL_PMIX_FOUND}" "no start under mpirun or srun")

# The core of Lua 5.4 becomes part of libpeal, hidden: a host that has a Lua of its own, perhaps
# another one, must not meet this one. So it is the archive that is looked for, and it has to be
# fit for a shared library.
option(PEAL_LUA "Policies and algorithms in Lua, and the Lua module, where Lua 5.4 is found" ON)
if(PEAL_LUA)
    find_path(PEAL_LUA_INCLUDE_DIR lua.h PATH_SUFFIXES lua5.4 lua-5.4 lua54)
    find_library(PEAL_LUA_LIBRARY NAMES liblua5.4.a liblua-5.4.a liblua54.a liblua.a)
else()
    set(PEAL_LUA_INCLUDE_DIR "")
endif()
add_library(peal_lua_core INTERFACE)
if(PEAL_LUA_INCLUDE_DIR AND PEAL_LUA_LIBRARY)
    try_compile(PEAL_HAVE_LUA ${PROJECT_BINARY_DIR}/probe-lua
        SOURCES ${CMAKE_CURRENT_LIST_DIR}/probe_lua.c
        CMAKE_FLAGS -DINCLUDE_DIRECTORIES=${PEAL_LUA_INCLUDE_DIR}
        LINK_OPTIONS -shared LINKER:--version-script=${CMAKE_CURRENT_LIST_DIR}/probe-lua.map
        LINK_LIBRARIES ${PEAL_LUA_LIBRARY} m)
endif()
if(PEAL_HAVE_LUA)
    target_include_directories(peal_lua_core SYSTEM INTERFACE ${PEAL_LUA_INCLUDE_DIR})
else()
    set(PEAL_LUA_LIBRARY "")
endif()
peal_feature(lua "${PEAL_HAVE_LUA}" "no scripted policies and algorithms")
