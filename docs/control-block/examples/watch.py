"""watch.py STATS up|down: prints what is in force and what has passed, as of one moment."""
import mmap
import os
import sys
import time

NAMES = """at_ns rate delay_ns jitter_ns loss limit_packets limit_bytes packets_in
packets_duplicated packets_out packets_queued packets_dropped""".split()
if len(sys.argv) != 3 or sys.argv[2] not in ("up", "down"):
    sys.exit("usage: watch.py STATS up|down")
path, side = sys.argv[1:]
try:
    block = mmap.mmap(os.open(path, os.O_RDONLY), 4096, prot=mmap.PROT_READ)
except (OSError, ValueError) as error:
    sys.exit(f"watch.py: {path} is no statistics block, or its run is gone: {error}")
if block[:8] != b"PNCTSTAT":
    sys.exit(f"watch.py: {path} is no statistics block")
words = memoryview(block).cast("Q")[{"up": 1024, "down": 2048}[side] // 8 :]
for _ in range(1000):
    before, values = words[0], words[1 : 1 + len(NAMES)].tolist()
    # On processors that reorder loads (not x86) Python can ask for no more than this.
    if before % 2 == 0 and words[0] == before:
        break
    time.sleep(0.001)
else:
    sys.exit(f"watch.py: {path} stays half written: its run was stopped or killed")
print(*(f"{name}={value}" for name, value in zip(NAMES, values)))
