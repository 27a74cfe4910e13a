/* A stand-in for NVIDIA's management library: two GPUs, laid out as nvml.h lays them out.
 *
 * GPU 0 knows everything. GPU 1 is what a Jetson's is: it has a name and little else. The third answers nothing.
 * NVML_MIG, or test_mig, splits GPU 0: each word is an instance, `profile:gi:ci:multiprocessors:slices:MiB`, and the
 * empty text enables MIG without an instance.
 * The structs here are written from NVIDIA's documentation, apart from the program's own, so that a slip in
 * either shows as a wrong number.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct { int number; } *device_t;
typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned int version; unsigned long long total, reserved, free, used; } memory_v2_t;
typedef struct { unsigned int gpu, memory; } utilization_t;
typedef struct {
    char bus_id_legacy[16];
    unsigned int domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
} pci_t;

typedef struct {
    device_t device;
    unsigned long long type, data;
    unsigned int gpu_instance, compute_instance;
} event_t;
typedef struct {
    unsigned int field, scope;
    long long timestamp, latency;
    int type, code;
    union { double d; unsigned int u; unsigned long ul; unsigned long long ull; long long ll; int i; } value;
} field_t;

typedef struct { unsigned int pid; unsigned long long used; } process_v1_t;
typedef struct { unsigned int pid; unsigned long long used; unsigned int gpu_instance, compute_instance; } process_t;
typedef struct { unsigned int pid; unsigned long long timestamp; unsigned int sm, mem, enc, dec; } busy_t;

typedef struct {
    unsigned int multiprocessors, copy, decoders, encoders, jpeg, ofa, gpu_slices, compute_slices;
    unsigned long long memory_mib;
} attributes_t;

enum { OK = 0, INVALID = 2, UNSUPPORTED = 3, NOT_FOUND = 6, MORE = 7, TIMEOUT = 10, LOST = 15, MISMATCH = 25 };

static int first, second;
static int sessions;
static unsigned long long uncorrected, events[8];
static unsigned int places[8][2];
static unsigned int compute_mode;
static int lost, registered, sets, sent, came, failed_rows;

/* What a test sets: errors, XIDs, rows that failed, a GPU that fell off the bus. */
void test_uncorrected(unsigned long long count) { uncorrected = count; }
void test_lost(int now) { lost = now; }
void test_failed_rows(int now) { failed_rows = now; }
void test_xid_on(unsigned long long xid, unsigned int gi, unsigned int ci) {
    places[came % 8][0] = gi;
    places[came % 8][1] = ci;
    events[came++ % 8] = xid;
}
void test_xid(unsigned long long xid) { test_xid_on(xid, 0xffffffffu, 0xffffffffu); }
int test_sets(void) { return sets; }

/* For a library in another process: the file that NVML_FAULTS names has words, read when a GPU is opened. */
static void obey(void) {
    const char *path = getenv("NVML_FAULTS");
    FILE *file = path ? fopen(path, "r") : 0;
    static int reported;
    char word[16];
    int xid;
    if (!file) return;
    lost = compute_mode = 0;
    while (fscanf(file, "%15s", word) == 1) {
        if (!strcmp(word, "prohibited")) compute_mode = 2;
        if (!strcmp(word, "lost")) lost = 1;
        if (!strcmp(word, "crash")) abort();
        while (!strcmp(word, "hang")) pause();
        if (!strcmp(word, "slow")) { /* until the file says something else */
            fclose(file);
            usleep(1000);
            obey();
            return;
        }
        if (!strcmp(word, "xid") && fscanf(file, "%d", &xid) == 1 && !reported++) test_xid(xid);
    }
    fclose(file);
}

#define MOST_MIG 7
static struct instance { char profile[32]; unsigned int gi, ci, sms, slices; unsigned long long mib; } mig[MOST_MIG];
static int split, mig_enabled;

void test_mig(const char *text) {
    char words[512], *word;
    mig_enabled = text != 0;
    split = 0;
    strncpy(words, text ? text : "", sizeof words - 1);
    for (word = strtok(words, " "); word && split < MOST_MIG; word = strtok(0, " ")) {
        struct instance *one = &mig[split++];
        if (sscanf(word, "%31[^:]:%u:%u:%u:%u:%llu", one->profile, &one->gi, &one->ci, &one->sms, &one->slices,
                   &one->mib) != 6) abort();
    }
}
static int known(device_t device) { return (void *)device == &first; }
static struct instance *instance_of(device_t device) {
    struct instance *one = (struct instance *)(void *)device;
    return one >= mig && one < mig + split ? one : 0;
}

int nvmlInit_v2(void) {
    sessions++;
    if (getenv("NVML_UNCORRECTED")) uncorrected = strtoull(getenv("NVML_UNCORRECTED"), 0, 10);
    if (getenv("NVML_MIG")) test_mig(getenv("NVML_MIG"));
    if (getenv("NVML_INIT")) return atoi(getenv("NVML_INIT"));
    return getenv("NVML_BROKEN") ? 9 : OK;
}
int nvmlShutdown(void) { sessions--; return OK; }
int test_sessions(void) { return sessions; }

int nvmlSystemGetDriverVersion(char *text, unsigned int length) {
    if (length < 80) return INVALID;
    strcpy(text, "550.54.15");
    return OK;
}
int nvmlDeviceGetCount_v2(unsigned int *count) { *count = 3; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, device_t *device) {
    obey();
    if (index > 1) return NOT_FOUND;
    if (!index && lost) return LOST;
    *device = (device_t)(index ? &second : &first);
    return OK;
}
int nvmlDeviceGetName(device_t device, char *text, unsigned int length) {
    if (length < 96) return INVALID;
    if (instance_of(device)) snprintf(text, length, "NVIDIA H200 MIG %s", instance_of(device)->profile);
    else strcpy(text, known(device) ? "NVIDIA H200" : "Orin (nvgpu)");
    return OK;
}
int nvmlDeviceGetUUID(device_t device, char *text, unsigned int length) {
    struct instance *one = instance_of(device);
    if (one) {
        snprintf(text, length, "MIG-01234567-89ab-5def-0123-4567%04x%04x", one->gi, one->ci);
        return OK;
    }
    if (!known(device)) return UNSUPPORTED;
    if (length < 96) return INVALID;
    strcpy(text, "GPU-01234567-89ab-cdef-0123-456789abcdef");
    return OK;
}
int nvmlDeviceGetPciInfo_v3(device_t device, pci_t *pci) {
    if (!known(device)) return UNSUPPORTED;
    memset(pci, 0xff, sizeof *pci);
    strcpy(pci->bus_id_legacy, "wrong:00:00.0");
    strcpy(pci->bus_id, "00000000:3B:00.0");
    return OK;
}
#ifndef WITHOUT_MEMORY_V2
int nvmlDeviceGetMemoryInfo_v2(device_t device, memory_v2_t *memory) {
    if (memory->version != (sizeof(memory_v2_t) | 2u << 24)) return MISMATCH;
    if (instance_of(device)) {
        memory->total = instance_of(device)->mib << 20;
        memory->reserved = 20ull << 20;
        memory->used = 300ull << 20;
        memory->free = memory->total - memory->reserved - memory->used;
        return OK;
    }
    if (!known(device)) return UNSUPPORTED;
    memory->total = 150754820096ull;
    memory->reserved = 600ull << 20;
    memory->free = 150000000000ull;
    memory->used = 1000ull;
    return OK;
}
#endif
int nvmlDeviceGetMemoryInfo(device_t device, memory_t *memory) {
    if (!known(device)) return UNSUPPORTED;
    memory->total = 16106127360ull;
    memory->free = 16000000000ull;
    memory->used = 106127360ull;
    return OK;
}
int nvmlDeviceGetComputeMode(device_t device, unsigned int *mode) {
    if (!known(device)) return UNSUPPORTED;
    *mode = compute_mode;
    return OK;
}

int nvmlDeviceGetEnforcedPowerLimit(device_t device, unsigned int *milliwatts) {
    if (!known(device)) return UNSUPPORTED;
    *milliwatts = 700000;
    return OK;
}
int nvmlDeviceGetTotalEccErrors(device_t device, int type, int counter, unsigned long long *count) {
    if (!known(device)) return UNSUPPORTED;
    if (lost) return LOST;
    *count = type == 1 && counter == 0 ? uncorrected : type == 1 ? 5000000000ull : counter == 0 ? 3 : 4;
    return OK;
}
int nvmlDeviceGetUtilizationRates(device_t device, utilization_t *rates) {
    if (!known(device)) return UNSUPPORTED;
    rates->gpu = 42;
    rates->memory = 7;
    return OK;
}
int nvmlDeviceGetPowerUsage(device_t device, unsigned int *milliwatts) {
    if (!known(device) && !instance_of(device)) return UNSUPPORTED; /* for an instance, that of the whole GPU */
    *milliwatts = 123456;
    return OK;
}
int nvmlDeviceGetTotalEnergyConsumption(device_t device, unsigned long long *millijoules) {
    if (!known(device)) return UNSUPPORTED;
    *millijoules = 9876543210123ull;
    return OK;
}
int nvmlDeviceGetTemperature(device_t device, int sensor, unsigned int *celsius) {
    if (!known(device) || sensor != 0) return UNSUPPORTED;
    *celsius = 61;
    return OK;
}
int nvmlDeviceGetClockInfo(device_t device, int kind, unsigned int *megahertz) {
    if (!known(device)) return UNSUPPORTED;
    *megahertz = kind == 1 ? 1980 : kind == 2 ? 3201 : 0;
    return OK;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char *address, device_t *device) {
    if (strcmp(address, "0000:3b:00.0")) return NOT_FOUND;
    if (lost) return LOST;
    *device = (device_t)&first;
    return OK;
}
int nvmlDeviceGetRemappedRows(device_t device, unsigned int *cor, unsigned int *unc, unsigned int *pending,
                              unsigned int *failed) {
    if (!known(device)) return UNSUPPORTED;
    *cor = 6; *unc = 2; *pending = 1; *failed = failed_rows;
    return OK;
}
int nvmlDeviceGetRetiredPages(device_t device, int cause, unsigned int *count, unsigned long long *addresses) {
    if (!known(device)) return UNSUPPORTED;
    if (*count || addresses) return INVALID;
    *count = cause ? 9 : 0;
    return cause ? MORE : OK;
}
int nvmlDeviceGetRetiredPagesPendingStatus(device_t device, int *pending) {
    if (!known(device)) return UNSUPPORTED;
    *pending = 0;
    return OK;
}
#ifdef OLDER_REASONS
int nvmlDeviceGetCurrentClocksThrottleReasons(device_t device, unsigned long long *reasons) {
#else
int nvmlDeviceGetCurrentClocksEventReasons(device_t device, unsigned long long *reasons) {
#endif
    if (!known(device)) return UNSUPPORTED;
    *reasons = 0x24;
    return OK;
}
int nvmlDeviceGetPcieReplayCounter(device_t device, unsigned int *count) {
    if (!known(device)) return UNSUPPORTED;
    *count = 8;
    return OK;
}
int nvmlDeviceGetNvLinkState(device_t device, unsigned int link, int *active) {
    if (!known(device) || link == 1) return UNSUPPORTED;
    if (link > 3) return INVALID;
    *active = link != 2;
    return OK;
}
int nvmlDeviceGetFieldValues(device_t device, int count, field_t *values) {
    if (!known(device)) return UNSUPPORTED;
    for (int i = 0; i < count; i++) {
        field_t *value = &values[i];
        value->value.ull = ~0ull;
        value->code = OK;
        switch (value->field) {
        case 38: value->type = 3; value->value.ull = 6000000000ull; break;
        case 45: value->code = UNSUPPORTED; break;
        case 52: value->type = 1; value->value.u = 12; break;
        case 59: value->type = 3; value->value.ull = 0; break;
        case 138: case 139:
            value->code = value->scope == 0xffffffffu ? OK : INVALID;
            value->type = 3;
            value->value.ull = value->field == 138 ? 1000 : 2000;
            break;
        default: value->code = INVALID;
        }
    }
    return OK;
}
int nvmlDeviceGetMigMode(device_t device, unsigned int *current, unsigned int *pending) {
    if (!known(device)) return UNSUPPORTED;
    *current = *pending = mig_enabled;
    return OK;
}
int nvmlDeviceGetMaxMigDeviceCount(device_t device, unsigned int *count) {
    if (!known(device)) return UNSUPPORTED;
    *count = mig_enabled ? MOST_MIG : 0;
    return OK;
}
int nvmlDeviceGetMigDeviceHandleByIndex(device_t device, unsigned int index, device_t *instance) {
    if (!known(device)) return UNSUPPORTED;
    if (index >= MOST_MIG) return INVALID;
    if (index % 2 == 0 && index < 4) return NOT_FOUND; /* numbers may lack an instance */
    index = index < 4 ? index / 2 : index - 2;
    if (index >= (unsigned int)split) return NOT_FOUND;
    *instance = (device_t)(void *)&mig[index];
    return OK;
}
int nvmlDeviceGetGpuInstanceId(device_t device, unsigned int *id) {
    if (!instance_of(device)) return UNSUPPORTED;
    *id = instance_of(device)->gi;
    return OK;
}
int nvmlDeviceGetComputeInstanceId(device_t device, unsigned int *id) {
    if (!instance_of(device)) return UNSUPPORTED;
    *id = instance_of(device)->ci;
    return OK;
}
int nvmlDeviceGetAttributes_v2(device_t device, attributes_t *attributes) {
    if (!instance_of(device)) return UNSUPPORTED;
    memset(attributes, 0xff, sizeof *attributes);
    attributes->multiprocessors = instance_of(device)->sms;
    attributes->compute_slices = instance_of(device)->slices;
    attributes->memory_mib = instance_of(device)->mib;
    return OK;
}
#ifndef WITHOUT_CORES
int nvmlDeviceGetNumGpuCores(device_t device, unsigned int *cores) {
    if (!known(device)) return UNSUPPORTED;
    *cores = 132 * 128;
    return OK;
}
#endif
int nvmlDeviceGetCudaComputeCapability(device_t device, int *major, int *minor) {
    if (!known(device)) return UNSUPPORTED;
    *major = 9;
    *minor = 0;
    return OK;
}
int nvmlDeviceGetSupportedEventTypes(device_t device, unsigned long long *types) {
    if (!known(device)) return UNSUPPORTED;
    *types = 0xb;
    return OK;
}
int nvmlEventSetCreate(void **set) { *set = &sets; sets++; return OK; }
int nvmlEventSetFree(void *set) { if (set != &sets) return INVALID; sets--; return OK; }
int nvmlDeviceRegisterEvents(device_t device, unsigned long long types, void *set) {
    if (!known(device) || set != &sets || types != 8) return INVALID;
    registered = 1;
    return OK;
}
int nvmlEventSetWait_v2(void *set, event_t *event, unsigned int timeout) {
    if (set != &sets || timeout || !registered) return INVALID;
    if (sent == came) return TIMEOUT;
    event->device = (device_t)&first;
    event->type = 8;
    event->gpu_instance = places[sent % 8][0];
    event->compute_instance = places[sent % 8][1];
    event->data = events[sent++ % 8];
    return OK;
}

/* Processes: those that a test adds, or the lines `pid bytes percent` of the file PROCESSES, read at each call.
 * `kind` says which lists have them: 1 compute, 2 graphics, 4 MPS.
 */
static struct { unsigned int pid, sm, kind, gi, ci; unsigned long long used, at; } processes[8192];
static int running;

void test_process_on(unsigned int pid, unsigned long long used, unsigned int kind, unsigned int gi, unsigned int ci) {
    processes[running].gi = gi;
    processes[running].ci = ci;
    processes[running].pid = pid;
    processes[running].used = used;
    processes[running++].kind = kind;
}
void test_process(unsigned int pid, unsigned long long used, unsigned int kind) {
    test_process_on(pid, used, kind, 0xffffffffu, 0xffffffffu);
}
void test_busy(int which, unsigned int sm, unsigned long long at) { processes[which].sm = sm; processes[which].at = at; }
void test_ended(void) { running = 0; }

#ifndef WITHOUT_PROCESSES
static void refresh(void) {
#ifdef PROCESSES
    FILE *file = fopen(PROCESSES, "r");
    static unsigned long long now = 1;
    running = 0;
    now++;
    while (file && fscanf(file, "%u %llu %u", &processes[running].pid, &processes[running].used,
                          &processes[running].sm) == 3) {
        processes[running].kind = 1;
        processes[running++].at = now;
    }
    if (file) fclose(file);
#endif
}
#endif
#define LIST(name, type, bit)                                                      \
    int name(device_t device, unsigned int *count, type *list) {                   \
        unsigned int room = *count, there = 0;                                     \
        struct instance *one = instance_of(device);                                \
        if (!known(device) && !one) return UNSUPPORTED;                            \
        refresh();                                                                 \
        for (int i = 0; i < running; i++) {                                        \
            if (!(processes[i].kind & bit)) continue;                              \
            if (one && (processes[i].gi != one->gi || processes[i].ci != one->ci)) continue; \
            if (there < room) {                                                    \
                memset(&list[there], 0xff, sizeof list[there]);                    \
                list[there].pid = processes[i].pid;                                \
                list[there].used = processes[i].used;                              \
            }                                                                      \
            there++;                                                               \
        }                                                                          \
        *count = there;                                                            \
        return there > room ? MORE : OK;                                           \
    }
#define LISTS(suffix, type)                                                        \
    LIST(nvmlDeviceGetComputeRunningProcesses##suffix, type, 1)                    \
    LIST(nvmlDeviceGetGraphicsRunningProcesses##suffix, type, 2)                   \
    LIST(nvmlDeviceGetMPSComputeRunningProcesses##suffix, type, 4)
#ifdef PROCESSES_V1
LISTS(, process_v1_t)
#elif defined(PROCESSES_V3)
LISTS(_v3, process_t)
#elif !defined(WITHOUT_PROCESSES)
LISTS(, process_v1_t)
LISTS(_v2, process_t)
#endif
#ifndef WITHOUT_PROCESSES
int nvmlDeviceGetProcessUtilization(device_t device, busy_t *list, unsigned int *count, unsigned long long since) {
    unsigned int room = *count, there = 0;
    if (!known(device)) return UNSUPPORTED;
    for (int i = 0; i < running; i++) {
        if (!processes[i].sm || processes[i].at <= since) continue;
        if (there < room) list[there] = (busy_t){processes[i].pid, processes[i].at, processes[i].sm, 1, 2, 3};
        there++;
    }
    *count = there;
    return there > room ? MORE : there ? OK : NOT_FOUND;
}
#endif
