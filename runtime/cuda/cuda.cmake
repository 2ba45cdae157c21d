# SPDX-License-Identifier: Apache-2.0
# The host side of CUDA is part of the runtime on every machine: it declares what it uses of the
# driver by itself, and opens that at run time. The toolkit is needed for device code alone.

file(GLOB peal_cuda_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/runtime/cuda/*.c)
target_sources(peal_runtime PRIVATE ${peal_cuda_sources})
target_include_directories(peal_room_runtime INTERFACE ${PROJECT_SOURCE_DIR}/runtime/cuda)
