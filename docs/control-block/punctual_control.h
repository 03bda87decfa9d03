/* The shared memory of a running punctual link: ../control-block.md explains it.
 *
 * Two files in the run's directory, each 4096 bytes: `control` (write to it) and `stats` (read it).
 * All words are 64-bit little endian. C99 with the __atomic builtins of gcc and clang, or C++.
 * With -std=c99 and the like include it before everything else. */
#ifndef PUNCTUAL_CONTROL_H
#define PUNCTUAL_CONTROL_H

#ifndef _DEFAULT_SOURCE
#define _DEFAULT_SOURCE 1 /* endian.h has its functions with it only */
#endif
#include <endian.h>
#include <stdint.h>

#define PUNCTUAL_CONTROL_MAGIC UINT64_C(0x4c52544354434e50) /* "PNCTCTRL" */
#define PUNCTUAL_STATS_MAGIC UINT64_C(0x5441545354434e50) /* "PNCTSTAT" */
#define PUNCTUAL_VERSION UINT64_C(1)
#define PUNCTUAL_UNLIMITED UINT64_MAX

struct punctual_header {
    uint64_t magic, version, size, pid;
};

/* What set_mask names. */
enum {
    PUNCTUAL_SET_RATE = 1,
    PUNCTUAL_SET_DELAY = 2,
    PUNCTUAL_SET_JITTER = 4,
    PUNCTUAL_SET_LOSS = 8,
    PUNCTUAL_SET_LIMIT_PACKETS = 16,
    PUNCTUAL_SET_LIMIT_BYTES = 32
};

/* One direction of `control`. */
struct punctual_control_side {
    uint64_t rate; /* bit/s, one store; 0 pauses, PUNCTUAL_UNLIMITED is no bottleneck */
    uint64_t pad_0[7];
    uint64_t spare; /* nobody reads it */
    uint64_t pad_1[7];
    uint64_t set_generation; /* odd while the words below are being written */
    uint64_t set_mask;
    uint64_t set_rate;      /* bit/s */
    uint64_t set_delay_ns;
    uint64_t set_jitter_ns;
    uint64_t set_loss; /* share times 2^32-1 */
    uint64_t set_limit_packets;
    uint64_t set_limit_bytes;
    uint64_t pad_2[8];
};

struct punctual_control {
    struct punctual_header header;
    uint64_t pad_0[28];
    struct punctual_control_side up, down;
    uint64_t pad_1[416];
};

/* One direction of `stats`: all words behind `generation` belong to one moment. */
struct punctual_stats_side {
    uint64_t generation;
    uint64_t at_ns;
    uint64_t rate, delay_ns, jitter_ns, loss, limit_packets, limit_bytes;
    uint64_t packets_in, packets_duplicated, packets_out, packets_queued, packets_dropped;
    uint64_t packets_marked, packets_corrupted, packets_reordered;
    uint64_t bytes_in, bytes_duplicated, bytes_out, bytes_dropped;
    uint64_t backlog_packets, backlog_bytes, backlog_peak_bytes;
    uint64_t held_bytes, held_peak_bytes;
    uint64_t late_early, late_lt_50us, late_lt_1ms, late_lt_4ms, late_ge_4ms;
    uint64_t changes, changed_at_ns, ignored, turns;
    uint64_t reserved_0, reserved_1;
    uint64_t dropped[32]; /* by reason */
    uint64_t pad[60];
};

struct punctual_stats {
    struct punctual_header header;
    uint64_t pad_0[124];
    struct punctual_stats_side up, down;
    uint64_t pad_1[128];
};

static inline uint64_t punctual_load(const uint64_t *word)
{
    return le64toh(__atomic_load_n(word, __ATOMIC_RELAXED));
}

static inline void punctual_store(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, htole64(value), __ATOMIC_RELAXED);
}

static inline int punctual_move(uint64_t *word, uint64_t from, uint64_t to, int order)
{
    from = htole64(from);
    return __atomic_compare_exchange_n(word, &from, htole64(to), 0, order, __ATOMIC_RELAXED);
}

/* Begins a set: 1 when set_mask and the words it names may be stored (with punctual_store, at
 * once), 0 when somebody else is writing: try again, and after a second without any movement of
 * set_generation call it with `stuck`, that odd generation, to take over from a dead writer.
 * `stuck` is 0 else. *generation is for punctual_set_publish. */
static inline int punctual_set_begin(struct punctual_control_side *side, uint64_t stuck,
                                     uint64_t *generation)
{
    uint64_t found = stuck ? stuck : punctual_load(&side->set_generation);
    if (!stuck && found % 2)
        return 0;
    *generation = found + (stuck ? 2 : 1);
    if (!punctual_move(&side->set_generation, found, *generation, __ATOMIC_ACQUIRE))
        return 0;
    __atomic_thread_fence(__ATOMIC_RELEASE);
    return 1;
}

/* Ends it: 0 when somebody has taken over, and then nothing is done. */
static inline int punctual_set_publish(struct punctual_control_side *side, uint64_t generation)
{
    return punctual_move(&side->set_generation, generation, generation + 1, __ATOMIC_RELEASE);
}

/* Copies one direction's statistics: 1 when all of `copy` belongs to one moment, in the machine's
 * byte order; 0 while they are being written: try again. */
static inline int punctual_stats_read(const struct punctual_stats_side *side,
                                      struct punctual_stats_side *copy)
{
    const uint64_t *from = &side->generation;
    uint64_t *to = &copy->generation;
    unsigned word;
    for (word = 0; word < sizeof *side / sizeof *from; word++) {
        to[word] = punctual_load(&from[word]);
        if (word == 0)
            __atomic_thread_fence(__ATOMIC_ACQUIRE);
    }
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return copy->generation % 2 == 0 && punctual_load(&side->generation) == copy->generation;
}

#endif
