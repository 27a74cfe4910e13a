/* A clock that jumps: adds the seconds that a shared file holds to the time of day. Loaded by LD_PRELOAD. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

static volatile long *shift;

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) {
        const char *path = getenv("CLOCK_SHIFT");
        int file = path ? open(path, O_RDONLY) : -1;
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
        if (file >= 0) {
            void *page = mmap(0, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
            if (page != MAP_FAILED) shift = page;
        }
    }
    int code = real(clock, now);
    if (!code && clock == CLOCK_REALTIME && shift) now->tv_sec += *shift;
    return code;
}
