# SPDX-License-Identifier: Apache-2.0
# The kernels are written once in C and compiled for several instruction sets, among which
# kern_select.c picks at run time. Included from the directory that makes the object library.

include(CheckCCompilerFlag)

set(peal_kernels runtime/kern_base.c runtime/kern_avx2.c runtime/kern_avx512.c)

# Lets the loops vectorise although a destination may be one of the sources.
check_c_compiler_flag(-fopenmp-simd PEAL_HAVE_OPENMP_SIMD)
if(PEAL_HAVE_OPENMP_SIMD)
    set_property(SOURCE ${peal_kernels} APPEND PROPERTY COMPILE_OPTIONS -fopenmp-simd)
    set_property(SOURCE ${peal_kernels} APPEND PROPERTY COMPILE_DEFINITIONS PEAL_OPENMP_SIMD=1)
endif()
# Vectors are worth having in a debugging build, too: the tests move megabytes.
set_property(SOURCE ${peal_kernels} runtime/kern_wire.c APPEND PROPERTY COMPILE_OPTIONS -O3)

if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
    check_c_compiler_flag("-mavx2 -mf16c" PEAL_HAVE_AVX2)
    if(PEAL_HAVE_AVX2)
        set_property(SOURCE runtime/kern_avx2.c APPEND PROPERTY COMPILE_OPTIONS
                     -mavx2 -mf16c)
    endif()
    check_c_compiler_flag("-mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512"
                          PEAL_HAVE_AVX512)
    if(PEAL_HAVE_AVX512)
        set_property(SOURCE runtime/kern_avx512.c APPEND PROPERTY COMPILE_OPTIONS
                     -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512
                     -mf16c)
    endif()
endif()
