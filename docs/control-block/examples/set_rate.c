/* set_rate CONTROL up|down BITS_PER_SECOND|unlimited: one store.   cc -I.. -o set_rate set_rate.c */
#include "punctual_control.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

int main(int argc, char **argv)
{
    int down = argc == 4 && !strcmp(argv[2], "down");
    int unlimited = argc == 4 && !strcmp(argv[3], "unlimited");
    uint64_t rate = argc != 4 || unlimited ? PUNCTUAL_UNLIMITED : strtoull(argv[3], NULL, 10);
    if (argc != 4 || (!down && strcmp(argv[2], "up")) || !*argv[3] || errno == ERANGE ||
        (!unlimited && argv[3][strspn(argv[3], "0123456789")])) {
        fprintf(stderr, "usage: set_rate CONTROL up|down BITS_PER_SECOND|unlimited\n");
        return 2;
    }
    int fd = open(argv[1], O_RDWR);
    struct punctual_control *block = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (block == MAP_FAILED || punctual_load(&block->header.magic) != PUNCTUAL_CONTROL_MAGIC ||
        punctual_load(&block->header.version) != PUNCTUAL_VERSION) {
        fprintf(stderr, "set_rate: %s is no control block, or its run is gone\n", argv[1]);
        return 1;
    }
    struct punctual_control_side *side = down ? &block->down : &block->up;
    punctual_store(&side->rate, rate);
    return 0;
}
