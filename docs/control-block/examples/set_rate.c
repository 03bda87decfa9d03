/* set_rate CONTROL up|down BITS_PER_SECOND: one store.   cc -I.. -o set_rate set_rate.c */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "punctual_control.h"

int main(int argc, char **argv)
{
    int fd = argc == 4 ? open(argv[1], O_RDWR) : -1;
    struct punctual_control *block = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (block == MAP_FAILED || punctual_load(&block->header.magic) != PUNCTUAL_CONTROL_MAGIC ||
        punctual_load(&block->header.version) != PUNCTUAL_VERSION) {
        fprintf(stderr, "set_rate: not a control block, or usage: CONTROL up|down RATE\n");
        return 1;
    }
    struct punctual_control_side *side = strcmp(argv[2], "down") ? &block->up : &block->down;
    punctual_store(&side->rate, strtoull(argv[3], NULL, 10));
    return 0;
}
