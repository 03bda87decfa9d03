/* set_values CONTROL up|down BITS_PER_SECOND|unlimited DELAY_NS: both at once.
 * cc -I.. -o set_values set_values.c */
#include "punctual_control.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

int main(int argc, char **argv)
{
    int down = argc == 5 && !strcmp(argv[2], "down");
    int unlimited = argc == 5 && !strcmp(argv[3], "unlimited");
    uint64_t rate = argc != 5 || unlimited ? PUNCTUAL_UNLIMITED : strtoull(argv[3], NULL, 10);
    uint64_t delay = argc != 5 ? 0 : strtoull(argv[4], NULL, 10);
    if (argc != 5 || (!down && strcmp(argv[2], "up")) || !*argv[3] || !*argv[4] ||
        (!unlimited && argv[3][strspn(argv[3], "0123456789")]) ||
        argv[4][strspn(argv[4], "0123456789")] || errno == ERANGE) {
        fprintf(stderr, "usage: set_values CONTROL up|down BITS_PER_SECOND|unlimited DELAY_NS\n");
        return 2;
    }
    int fd = open(argv[1], O_RDWR);
    struct punctual_control *block = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (block == MAP_FAILED || punctual_load(&block->header.magic) != PUNCTUAL_CONTROL_MAGIC ||
        punctual_load(&block->header.version) != PUNCTUAL_VERSION) {
        fprintf(stderr, "set_values: %s is no control block, or its run is gone\n", argv[1]);
        return 1;
    }
    struct punctual_control_side *side = down ? &block->down : &block->up;
    uint64_t generation, odd = punctual_load(&side->set_generation);
    struct timespec second = {1, 0};
    while (!punctual_set_begin(side, 0, &generation)) { /* somebody else is writing */
        nanosleep(&second, NULL);
        if (odd % 2 && odd == punctual_load(&side->set_generation) && /* a second later: dead */
            punctual_set_begin(side, odd, &generation))
            break;
        odd = punctual_load(&side->set_generation);
    }
    punctual_store(&side->set_mask, PUNCTUAL_SET_RATE | PUNCTUAL_SET_DELAY);
    punctual_store(&side->set_rate, rate);
    punctual_store(&side->set_delay_ns, delay);
    return punctual_set_publish(side, generation) ? 0 : 1;
}
