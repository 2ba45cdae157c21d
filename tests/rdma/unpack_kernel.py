# SPDX-License-Identifier: Apache-2.0
"""unpack_kernel.py BZIMAGE OUT: the kernel itself, an ELF file, out of the image that unpacks itself.
An emulated processor takes seconds for what is done here in a moment."""
import lzma
import subprocess
import sys

image = open(sys.argv[1], "rb").read()
for magic, unpack in (
    (b"\xfd7zXZ\0", lambda packed: lzma.LZMADecompressor().decompress(packed)),
    # What follows the stream makes zstd complain at its end.
    (b"\x28\xb5\x2f\xfd", lambda packed: subprocess.run(
        ["zstd", "-dcq"], input=packed, capture_output=True, check=False).stdout),
):
    at = image.find(magic)
    kernel = unpack(image[at:]) if at >= 0 else b""
    if kernel[:4] == b"\x7fELF":
        break
else:
    sys.exit("no kernel in " + sys.argv[1])
open(sys.argv[2], "wb").write(kernel)
