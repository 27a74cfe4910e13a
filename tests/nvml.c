/* A stand-in for NVIDIA's management library: two GPUs, laid out as nvml.h lays them out.
 *
 * GPU 0 knows everything. GPU 1 is what a Jetson's is: it has a name and little else. The third answers nothing.
 * The structs here are written from NVIDIA's documentation, apart from the program's own, so that a slip in
 * either shows as a wrong number.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct { int number; } *device_t;
typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned int version; unsigned long long total, reserved, free, used; } memory_v2_t;
typedef struct { unsigned int gpu, memory; } utilization_t;
typedef struct {
    char bus_id_legacy[16];
    unsigned int domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
} pci_t;

enum { OK = 0, INVALID = 2, UNSUPPORTED = 3, NOT_FOUND = 6, MISMATCH = 25 };

static int first, second;
static int sessions;

static int known(device_t device) { return (void *)device == &first; }

int nvmlInit_v2(void) { sessions++; return getenv("NVML_BROKEN") ? 9 : OK; }
int nvmlShutdown(void) { sessions--; return OK; }
int test_sessions(void) { return sessions; }

int nvmlSystemGetDriverVersion(char *text, unsigned int length) {
    if (length < 80) return INVALID;
    strcpy(text, "550.54.15");
    return OK;
}
int nvmlDeviceGetCount_v2(unsigned int *count) { *count = 3; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, device_t *device) {
    if (index > 1) return NOT_FOUND;
    *device = (device_t)(index ? &second : &first);
    return OK;
}
int nvmlDeviceGetName(device_t device, char *text, unsigned int length) {
    if (length < 96) return INVALID;
    strcpy(text, known(device) ? "NVIDIA H200" : "Orin (nvgpu)");
    return OK;
}
int nvmlDeviceGetUUID(device_t device, char *text, unsigned int length) {
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
int nvmlDeviceGetEnforcedPowerLimit(device_t device, unsigned int *milliwatts) {
    if (!known(device)) return UNSUPPORTED;
    *milliwatts = 700000;
    return OK;
}
int nvmlDeviceGetTotalEccErrors(device_t device, int type, int counter, unsigned long long *count) {
    if (!known(device) || type != 1 || counter != 0) return UNSUPPORTED;
    *count = 5000000000ull;
    return OK;
}
int nvmlDeviceGetUtilizationRates(device_t device, utilization_t *rates) {
    if (!known(device)) return UNSUPPORTED;
    rates->gpu = 42;
    rates->memory = 7;
    return OK;
}
int nvmlDeviceGetPowerUsage(device_t device, unsigned int *milliwatts) {
    if (!known(device)) return UNSUPPORTED;
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
