/* Syncs that a program submits by Linux AIO (`syscall(SYS_io_submit, …)`): a thread executes them, so that they
   can be delayed or fail like other syncs, and reports their ends as the kernel does. All other submissions go to the
   kernel. */

#include "shim.h"

#include <linux/aio_abi.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct submitted {
    aio_context_t context;
    struct iocb *iocb;
    uint64_t data;
    int fd, eventfd, only_data; /* eventfd -1: none */
    int64_t result;
    int has_ended;
    struct submitted *next;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t end = PTHREAD_COND_INITIALIZER;
static struct submitted *first; /* in flight, or ended and not reported */

static void *make(void *argument)
{
    struct submitted *sync = argument;
    int result = sync->only_data ? fdatasync(sync->fd) : fsync(sync->fd); /* the wrappers of this library */
    int64_t one = 1;
    pthread_mutex_lock(&mutex);
    sync->result = result ? -errno : 0;
    sync->has_ended = 1;
    pthread_cond_broadcast(&end);
    int eventfd = sync->eventfd; /* after the unlock the program may take the event, which frees it */
    pthread_mutex_unlock(&mutex);
    if (eventfd >= 0 && write(eventfd, &one, sizeof one) != sizeof one)
        note_unsupported_call("a full eventfd");
    return NULL;
}

static int is_ours(const struct iocb *iocb)
{
    return (iocb->aio_lio_opcode == IOCB_CMD_FDSYNC || iocb->aio_lio_opcode == IOCB_CMD_FSYNC) &&
           descriptor_is_below_root(iocb->aio_fildes);
}

static int take(aio_context_t context, struct iocb *iocb)
{
    struct submitted *sync = malloc(sizeof *sync);
    pthread_attr_t detached;
    pthread_t thread;
    if (sync == NULL)
        return EAGAIN;
    *sync = (struct submitted){
        context,
        iocb,
        iocb->aio_data,
        iocb->aio_fildes,
        iocb->aio_flags & IOCB_FLAG_RESFD ? (int)iocb->aio_resfd : -1,
        iocb->aio_lio_opcode == IOCB_CMD_FDSYNC,
    };
    pthread_mutex_lock(&mutex);
    sync->next = first;
    first = sync;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    int failure = pthread_create(&thread, &detached, make, sync);
    pthread_attr_destroy(&detached);
    if (failure) {
        first = sync->next;
        free(sync);
    }
    pthread_mutex_unlock(&mutex);
    return failure;
}

static long submit(aio_context_t context, long count, struct iocb **iocbs)
{
    for (long number = 0; number < count; number++) {
        int failure = 0;
        if (is_ours(iocbs[number]))
            failure = take(context, iocbs[number]);
        else if (REAL(syscall)(SYS_io_submit, context, 1L, iocbs + number) != 1)
            failure = errno;
        if (failure) {
            errno = failure;
            return number ? number : -1;
        }
    }
    return count;
}

/* Both of the following functions need the lock. */
static int in_flight(aio_context_t context)
{
    for (struct submitted *sync = first; sync != NULL; sync = sync->next)
        if (sync->context == context && !sync->has_ended)
            return 1;
    return 0;
}

static long take_ended(aio_context_t context, long most, struct io_event *events)
{
    long taken = 0;
    struct submitted **place = &first;
    while (*place != NULL && taken < most) {
        struct submitted *sync = *place;
        if (sync->context != context || !sync->has_ended) {
            place = &sync->next;
            continue;
        }
        events[taken++] = (struct io_event){sync->data, (uintptr_t)sync->iocb, sync->result, 0};
        *place = sync->next;
        free(sync);
    }
    return taken;
}

/* Return events of the shim, or those of the kernel if the shim has none; no program under the shim uses both. */
static long get_events(aio_context_t context, long least, long most, struct io_event *events, struct timespec *timeout)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    if (timeout != NULL) {
        until.tv_sec += timeout->tv_sec + (until.tv_nsec + timeout->tv_nsec) / 1000000000;
        until.tv_nsec = (until.tv_nsec + timeout->tv_nsec) % 1000000000;
    }
    pthread_mutex_lock(&mutex);
    long taken = take_ended(context, most, events);
    int failure = 0;
    while (taken < least && !failure && in_flight(context)) {
        if (timeout == NULL)
            pthread_cond_wait(&end, &mutex);
        else
            failure = pthread_cond_timedwait(&end, &mutex, &until);
        taken += take_ended(context, most - taken, events + taken);
    }
    int is_alone = taken == 0 && !in_flight(context);
    pthread_mutex_unlock(&mutex);
    return is_alone ? REAL(syscall)(SYS_io_getevents, context, least, most, events, timeout) : taken;
}

long syscall(long number, ...)
{
    va_list list;
    long a[6];
    va_start(list, number);
    for (int place = 0; place < 6; place++)
        a[place] = va_arg(list, long);
    va_end(list);
    if (control != NULL && number == SYS_io_submit)
        return submit(a[0], a[1], (struct iocb **)a[2]);
    if (control != NULL && number == SYS_io_getevents)
        return get_events(a[0], a[1], a[2], (struct io_event *)a[3], (struct timespec *)a[4]);
    return REAL(syscall)(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
