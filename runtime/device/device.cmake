# SPDX-License-Identifier: Apache-2.0
# The kernel's code for all devices: machine code for each architecture and, for those to come, PTX,
# as bytes in the library. Where there is no nvcc the library is built without, and says so when
# a GPU is asked for. Sanitizers are for the host, and do without.

set(PEAL_HAVE_DEVICE_CODE OFF)
if(PEAL_NVCC AND NOT PEAL_SANITIZE AND NOT PEAL_FUZZ)
    set(PEAL_HAVE_DEVICE_CODE ON)
    set(fatbin ${PROJECT_BINARY_DIR}/device_code.fatbin)
    file(GLOB device_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/runtime/device/*.h)
    # -fmad=false: what C rounds twice is not to be rounded once. What nvcc has to say, and the PTX,
    # are for tests/cli/device_code.sh.
    set(PEAL_DEVICE_KEPT ${PROJECT_BINARY_DIR}/device_code)
    file(MAKE_DIRECTORY ${PEAL_DEVICE_KEPT})
    add_custom_command(OUTPUT ${fatbin}
        COMMAND ${CMAKE_COMMAND} -DLOG=${PEAL_DEVICE_KEPT}/log -P
                ${PROJECT_SOURCE_DIR}/cmake/PealLogged.cmake --
                ${PEAL_NVCC} -O3 -std=c++17 -fmad=false -fatbin -Xfatbin=-compress-all
                -Xptxas=-v,-warn-spills --threads 0
                -gencode arch=compute_80,code=sm_80
                -gencode arch=compute_90,code=sm_90
                -gencode arch=compute_100,code=[sm_100,compute_100]
                --keep --keep-dir ${PEAL_DEVICE_KEPT}
                -o ${fatbin} ${PROJECT_SOURCE_DIR}/runtime/device/kernels.cu
        DEPENDS ${PROJECT_SOURCE_DIR}/runtime/device/kernels.cu ${device_headers}
        COMMENT "Compiling the kernel for sm_80, sm_90 and sm_100"
        VERBATIM)
    set(PEAL_FATBIN ${fatbin})
    configure_file(${PROJECT_SOURCE_DIR}/runtime/device/device_code.c.in
                   ${PROJECT_BINARY_DIR}/device_code_bytes.c @ONLY)
    target_sources(peal_runtime PRIVATE ${PROJECT_BINARY_DIR}/device_code_bytes.c)
    set_source_files_properties(${PROJECT_BINARY_DIR}/device_code_bytes.c PROPERTIES
                                OBJECT_DEPENDS ${fatbin})
    # The one without code.
    set_source_files_properties(${PROJECT_SOURCE_DIR}/runtime/cuda/device_code.c PROPERTIES
                                HEADER_FILE_ONLY ON)
endif()
