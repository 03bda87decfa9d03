#!/bin/sh
# set_rate.sh CONTROL up|down BITS_PER_SECOND|unlimited: one write of 8 bytes.
case $2 in up) word=32 ;; down) word=64 ;; *) word= ;; esac
rest=$3
case $3 in
unlimited | 18446744073709551615) rest=unlimited ;; # more than the shell can count to
'' | *[!0-9]* | 0?* | ???????????????????*) word= ;; # nor to what has 19 digits
esac
if [ -z "$word" ]; then
    echo 'usage: set_rate.sh CONTROL up|down BITS_PER_SECOND|unlimited' >&2
    exit 2
elif [ "$(dd if="$1" bs=8 count=1 2>/dev/null)" != PNCTCTRL ]; then
    echo "set_rate.sh: $1 is no control block, or its run is gone" >&2
    exit 1
fi
bytes=
for _ in 1 2 3 4 5 6 7 8; do # little endian, each byte in octal
    if [ "$rest" = unlimited ]; then byte=255; else byte=$((rest % 256)) rest=$((rest / 256)); fi
    bytes="$bytes\\$(printf %03o "$byte")"
done
# notrunc: the block cannot be cut short, and dd would try to.
# shellcheck disable=SC2059
printf "$bytes" | dd of="$1" bs=8 count=1 seek=$word conv=notrunc 2>/dev/null
