# SPDX-License-Identifier: Apache-2.0
# One language, one set of warnings, one floating-point model.

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# Ends up in the file as -O3 -DNDEBUG; never -march=native: the kernels of runtime/
# look at the processor themselves, so one build serves every machine.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

# A plan must be the same bytes from every compiler: a fused multiply-add rounds
# once where two operations round twice, and so may turn a comparison of costs.
add_compile_options(-ffp-contract=off)

# Warnings are a property of our own targets, not of who builds us as a subproject.
add_library(peal_warnings INTERFACE)
target_compile_options(peal_warnings INTERFACE
    -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wvla -Wstrict-prototypes
    -Wmissing-prototypes -Wundef -Wwrite-strings -Wformat=2)
if(PEAL_WERROR)
    target_compile_options(peal_warnings INTERFACE -Werror)
endif()

if(PEAL_SANITIZE)
    # What the kernels ask for, a sanitizer stands in the way of.
    if(CMAKE_C_COMPILER_ID MATCHES "Clang")
        target_compile_options(peal_warnings INTERFACE -Wno-pass-failed)
    endif()
    add_compile_options(-fsanitize=${PEAL_SANITIZE} -fno-sanitize-recover=all
                        -fno-omit-frame-pointer)
    # Tests shorten their longest loops; compilers name their sanitizers differently.
    add_compile_definitions(PEAL_SANITIZED)
    add_link_options(-fsanitize=${PEAL_SANITIZE})
endif()
if(PEAL_FUZZ)
    if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
        message(FATAL_ERROR "PEAL_FUZZ needs clang (preset fuzz)")
    endif()
    add_compile_options(-fsanitize=fuzzer-no-link)
endif()
