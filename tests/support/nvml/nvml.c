/*
 * A stand-in for the NVIDIA driver's libnvidia-ml.so.1, for machines without one.
 *
 * It answers what stands in the file that NVML_ANSWERS names, read anew for each call, so that a test changes what "the
 * driver" says while the real binding (pynvml) is talking to it. It proves nothing about a real GPU: only that we ask
 * by the real binding and understand its answers and errors.
 *
 * The file has one "key value" a line; keys that are not there answer 0. Devices are numbered; the first `count` are
 * GPUs, further ones are instances (MIG) or can be had by their UUID only.
 *   init, count, hang           return code of nvmlInit; GPUs; not 0: every question waits
 *   N.uuid, N.handle            text; return code of asking for the handle
 *   N.total N.reserved N.used   bytes;  N.memory: return code, N.memory_v2: return code of the newer question
 *   N.util                      percent; N.util_rc: return code
 *   N.processes                 PID:BYTES,PID:BYTES; N.processes_rc: return code
 *   N.mig                       number of its first instance; 0: it is not divided
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned long long u64;
enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, MOST = 16 };

static int text_of(const char *key, char *out, size_t size) {
    const char *name = getenv("NVML_ANSWERS");
    FILE *file = name ? fopen(name, "r") : NULL;
    char line[512], found[128], value[384];
    int is_there = 0;
    if (!file) return 0;
    while (!is_there && fgets(line, sizeof line, file))
        if (sscanf(line, "%127s %383s", found, value) == 2 && !strcmp(found, key)) {
            snprintf(out, size, "%s", value);
            is_there = 1;
        }
    fclose(file);
    return is_there;
}

static u64 number_of(const char *key) {
    char text[384];
    return text_of(key, text, sizeof text) ? strtoull(text, NULL, 10) : 0;
}

/* Handles are addresses in here: one place for each device. */
static char devices[MOST];

static u64 ask(const void *handle, const char *what) {
    char key[64];
    snprintf(key, sizeof key, "%d.%s", (int)((const char *)handle - devices), what);
    return number_of(key);
}

static void wait_while_hung(void) {
    while (number_of("hang")) usleep(1000);
}

int nvmlInitWithFlags(unsigned flags) { (void)flags; wait_while_hung(); return (int)number_of("init"); }
int nvmlShutdown(void) { return SUCCESS; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = (unsigned)number_of("count"); return SUCCESS; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
    if (index >= number_of("count")) return INVALID_ARGUMENT;
    *handle = devices + index;
    return (int)ask(*handle, "handle");
}

int nvmlDeviceGetUUID(void *handle, char *uuid, unsigned size) {
    char key[64];
    snprintf(key, sizeof key, "%d.uuid", (int)((char *)handle - devices));
    return text_of(key, uuid, size) ? SUCCESS : NOT_FOUND;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **handle) {
    char own[128];
    for (int n = 0; n < MOST; n++)
        if (nvmlDeviceGetUUID(devices + n, own, sizeof own) == SUCCESS && !strcmp(own, uuid)) {
            *handle = devices + n;
            return (int)ask(*handle, "handle");
        }
    return NOT_FOUND;
}

int nvmlDeviceGetMigMode(void *handle, unsigned *now, unsigned *pending) {
    *now = *pending = ask(handle, "mig") != 0;
    return SUCCESS;
}
int nvmlDeviceGetMaxMigDeviceCount(void *handle, unsigned *count) { (void)handle; *count = 7; return SUCCESS; }
int nvmlDeviceGetMigDeviceHandleByIndex(void *handle, unsigned index, void **instance) {
    if (index != 1) return NOT_FOUND; /* a place that is not filled comes first, as it may */
    *instance = devices + ask(handle, "mig");
    return SUCCESS;
}

struct memory { u64 total, free, used; };
int nvmlDeviceGetMemoryInfo(void *handle, struct memory *memory) {
    wait_while_hung();
    memory->total = ask(handle, "total");
    memory->used = ask(handle, "used") + ask(handle, "reserved");
    memory->free = memory->total - memory->used;
    return (int)ask(handle, "memory");
}

struct memory_v2 { unsigned version; u64 total, reserved, free, used; };
int nvmlDeviceGetMemoryInfo_v2(void *handle, struct memory_v2 *memory) {
    wait_while_hung();
    memory->total = ask(handle, "total");
    memory->reserved = ask(handle, "reserved");
    memory->used = ask(handle, "used");
    memory->free = memory->total - memory->reserved - memory->used;
    return (int)(ask(handle, "memory_v2") ? ask(handle, "memory_v2") : ask(handle, "memory"));
}

struct utilization { unsigned gpu, memory; };
int nvmlDeviceGetUtilizationRates(void *handle, struct utilization *util) {
    util->gpu = (unsigned)ask(handle, "util");
    util->memory = 0;
    return (int)ask(handle, "util_rc");
}

struct process { unsigned pid; u64 used; unsigned gpu_instance, compute_instance; };
int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, struct process *processes) {
    char key[64], text[384] = "";
    unsigned found = 0;
    if (ask(handle, "processes_rc")) return (int)ask(handle, "processes_rc");
    snprintf(key, sizeof key, "%d.processes", (int)((char *)handle - devices));
    text_of(key, text, sizeof text);
    for (char *part = strtok(text, ","); part; part = strtok(NULL, ","), found++)
        if (found < *count && processes) {
            memset(processes + found, 0, sizeof *processes);
            sscanf(part, "%u:%llu", &processes[found].pid, &processes[found].used);
        }
    int fits = found <= *count;
    *count = found;
    return fits ? SUCCESS : INSUFFICIENT_SIZE;
}
