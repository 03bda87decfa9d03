"""set_rate.py CONTROL up|down BITS_PER_SECOND: one store."""
import mmap
import os
import sys

path, side, rate = sys.argv[1], sys.argv[2], int(sys.argv[3])
block = mmap.mmap(os.open(path, os.O_RDWR), 4096)
# "Q" of a memoryview is one store of 8 bytes. struct.pack_into("<Q") is eight stores of one byte,
# and the link would see rates that nobody asked for.
words = memoryview(block).cast("Q")
if block[:8] != b"PNCTCTRL" or words[1] != 1:
    sys.exit("set_rate.py: not a control block of version 1")
words[{"up": 256, "down": 512}[side] // 8] = rate
