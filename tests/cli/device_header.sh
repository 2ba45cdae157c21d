#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ctest: slow
# nvcc takes the header for kernels of one's own without a warning, for each architecture.
set -eu
nvcc=$(command -v nvcc || true)
[ -n "$nvcc" ] || nvcc=${CUDA_HOME:-/usr/local/cuda}/bin/nvcc
[ -x "$nvcc" ] || {
    echo "device_header: no nvcc here: skipped"
    exit 77
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$nvcc" -O3 -std=c++17 -Werror all-warnings -Xcompiler -Wall,-Wextra \
    -I "$PEAL_SOURCE/include" -fatbin -gencode arch=compute_80,code=sm_80 \
    -gencode arch=compute_90,code=sm_90 -gencode arch=compute_100,code=sm_100 \
    -o "$work/epilogue.fatbin" "$PEAL_SOURCE/tests/device/epilogue.cu"
[ -s "$work/epilogue.fatbin" ]
echo "device_header: compiled for sm_80, sm_90 and sm_100"
