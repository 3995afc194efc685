/* Names that are not durable: changes of directories since their last sync, in order. Called with the lock held.

   As in POSIX, a name (also of a new file) becomes durable by a sync of its directory, and a rename by a sync of both.
   A removed or replaced file stays in the graveyard until the removal is durable. */

#include "shim.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t oldest = 1; /* all earlier ops are durable */

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
    if (op->sequence != 0) { /* no free op: treat all as durable */
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

/* Store the path of an op's grave, whose name is the op's unique number, in `path`. */
void grave_of(const struct op *op, char *path)
{
    snprintf(path, PATH_MAX, "%.4000s/%llu", unlinked, (unsigned long long)op->sequence);
}

static int is_in(const struct op *op, uint64_t directory)
{
    return op->change[0].directory == directory || (op->changes == 2 && op->change[1].directory == directory);
}

static void drop_op(struct op *op);

/* A removed directory cannot be synced. Drop its ops, except renames from or to other directories: in these a unique
   number replaces the directory's inode number, which may be reused. */
static void end_directory(uint64_t directory, uint64_t ended)
{
    int is_in_a_rename = 0;
    for (uint64_t each = oldest_pending(); each <= memory->sequence; each++)
        if (is_pending(each) && op_at(each)->changes == 2 && is_in(op_at(each), directory))
            is_in_a_rename = 1;
    for (uint64_t each = oldest_pending(); each <= memory->sequence; each++) {
        struct op *op = op_at(each);
        if (!is_pending(each) || !is_in(op, directory))
            continue;
        if (!is_in_a_rename)
            drop_op(op);
        else
            for (uint32_t at = 0; at < op->changes; at++)
                if (op->change[at].directory == directory)
                    op->change[at].directory = ended | (uint64_t)1 << 63;
    }
}

/* Drop an op that is durable or no longer needed. */
static void drop_op(struct op *op)
{
    char grave[PATH_MAX];
    struct stat status;
    uint64_t sequence = op->sequence;
    grave_of(op, grave);
    op->sequence = 0;
    if (!op->is_grave || stat(grave, &status))
        return;
    if (S_ISDIR(status.st_mode)) {
        REAL(rmdir)(grave);
        end_directory(status.st_ino, sequence);
        return;
    }
    if (status.st_nlink == 1)
        forget_file(status.st_ino);
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

/* An op is durable once all of its directories are synced, together with all earlier ops of the same names. */
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
        if (is_pending(each) && op->unsynced == 0)
            drop_op(op);
    }
}
