/* Names that are not durable: what was done to directories since they were synced, in order. Called with the lock held.

   As in POSIX, a name is durable by a sync of its directory, that of a new file too, and a rename by a sync of both. What
   stood under a name that was removed or replaced is kept in the graveyard until the removal is durable. */

#include "shim.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t oldest = 1; /* no op before it is pending */

uint64_t last_sequence(void)
{
    return memory->sequence;
}

static struct op *op_at(uint64_t sequence)
{
    return &ops[sequence % memory->ops];
}

static int is_pending(uint64_t sequence)
{
    return op_at(sequence)->sequence == sequence;
}

static uint64_t oldest_pending(void)
{
    if (memory->sequence >= memory->ops && oldest <= memory->sequence - memory->ops)
        oldest = memory->sequence - memory->ops + 1;
    while (oldest <= memory->sequence && !is_pending(oldest))
        oldest++;
    return oldest;
}

struct op *begin_op(void)
{
    struct op *op = op_at(memory->sequence + 1);
    if (op->sequence != 0) { /* there is no room for more: as if all were durable */
        atomic_fetch_add(&control->written_back, 1);
        settle_names(0, 1, memory->sequence);
    }
    memset(op, 0, sizeof *op);
    return op;
}

void enter_op(struct op *op)
{
    op->unsynced = op->changes == 2 ? 3 : 1;
    atomic_signal_fence(memory_order_seq_cst);
    op->sequence = ++memory->sequence;
}

void withdraw_op(struct op *op)
{
    char grave[PATH_MAX];
    grave_of(op, grave);
    if (op->is_grave)
        REAL(unlink)(grave);
    op->sequence = 0;
}

/* By the op's number, so that no two are the same. */
void grave_of(const struct op *op, char *path)
{
    snprintf(path, PATH_MAX, "%.4000s/%llu", graves, (unsigned long long)op->sequence);
}

static void bury(struct op *op)
{
    char grave[PATH_MAX];
    struct stat status;
    grave_of(op, grave);
    if (stat(grave, &status))
        return;
    if (S_ISDIR(status.st_mode)) {
        REAL(rmdir)(grave);
        for (uint64_t each = oldest_pending(); each <= memory->sequence; each++) {
            /* Nobody can sync a directory that is gone, and its number may be another one's next. */
            struct op *inside = op_at(each);
            if (is_pending(each) && inside != op && inside->change[0].directory == (uint64_t)status.st_ino)
                inside->sequence = 0;
        }
        return;
    }
    if (status.st_nlink == 1)
        forget(status.st_ino);
    REAL(unlink)(grave);
}

static int is_same_name(const struct change *one, const struct change *other)
{
    return one->directory == other->directory && strcmp(one->name, other->name) == 0;
}

static int shares_a_name(const struct op *one, const struct op *other)
{
    for (uint32_t mine = 0; mine < one->changes; mine++)
        for (uint32_t theirs = 0; theirs < other->changes; theirs++)
            if (is_same_name(&one->change[mine], &other->change[theirs]))
                return 1;
    return 0;
}

/* An op is durable once all of its directories are, and with it whatever came before it under the same names. */
static int is_durable(uint64_t sequence)
{
    struct op *op = op_at(sequence);
    if (op->unsynced == 0)
        return 1;
    for (uint64_t later = sequence + 1; later <= memory->sequence; later++)
        if (is_pending(later) && op_at(later)->unsynced == 0 && shares_a_name(op, op_at(later)))
            return 1;
    return 0;
}

void settle_names(uint64_t directory, int is_everything, uint64_t sequence)
{
    uint64_t first = oldest_pending();
    for (uint64_t each = first; each <= sequence; each++) {
        struct op *op = op_at(each);
        if (is_pending(each))
            for (uint32_t at = 0; at < op->changes; at++)
                if (is_everything || op->change[at].directory == directory)
                    op->unsynced &= ~(1u << at);
    }
    for (uint64_t each = memory->sequence; each >= first; each--)
        if (is_pending(each) && is_durable(each))
            op_at(each)->unsynced = 0;
    for (uint64_t each = first; each <= memory->sequence; each++) {
        struct op *op = op_at(each);
        if (is_pending(each) && op->unsynced == 0) {
            if (op->is_grave)
                bury(op);
            op->sequence = 0;
        }
    }
}
