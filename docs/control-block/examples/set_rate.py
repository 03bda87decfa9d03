"""set_rate.py CONTROL up|down BITS_PER_SECOND|unlimited: one store."""
import mmap
import os
import sys

try:
    path, side, rate = sys.argv[1:]
    word = {"up": 256, "down": 512}[side] // 8
    rate = 2**64 - 1 if rate == "unlimited" else int(rate)
    rate.to_bytes(8, "little")
except (KeyError, OverflowError, ValueError):
    sys.exit("usage: set_rate.py CONTROL up|down BITS_PER_SECOND|unlimited")
try:
    block = mmap.mmap(os.open(path, os.O_RDWR), 4096)
except (OSError, ValueError) as error:
    sys.exit(f"set_rate.py: {path} is no control block, or its run is gone: {error}")
# "Q" of a memoryview is one store of 8 bytes. struct.pack_into("<Q") is eight stores of one byte,
# and the link would see rates that nobody asked for.
words = memoryview(block).cast("Q")
if block[:8] != b"PNCTCTRL" or words[1] != 1:
    sys.exit(f"set_rate.py: {path} is no control block of version 1")
words[word] = rate
