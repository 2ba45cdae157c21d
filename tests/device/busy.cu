/* SPDX-License-Identifier: Apache-2.0 */
/* Something to hide a collective behind: multiplications and additions over an array, again and
 * again, by as many blocks as are launched. */
struct busy {
    unsigned long long at; /* of floats */
    unsigned long long count;
    unsigned long long loops;
};

extern "C" __global__ void device_busy(struct busy busy)
{
    float *data = reinterpret_cast<float *>(busy.at);
    unsigned long long first = blockIdx.x * static_cast<unsigned long long>(blockDim.x) + threadIdx.x;
    unsigned long long stride = static_cast<unsigned long long>(gridDim.x) * blockDim.x;
    for (unsigned long long i = first; i < busy.count; i += stride) {
        float value = data[i];
        for (unsigned long long k = 0; k < busy.loops; k++)
            value = value * 1.0001f + 0.5f;
        data[i] = value;
    }
}
