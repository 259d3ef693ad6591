// A driver's library without a GPU: as much of libcuda.so.1 as cuda.core and this package call for streams, events, memory and
// graphs. Work is done when it is submitted, and `fake_log` returns what was called, one call a line.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SUCCESS, INVALID_VALUE, INVALID_CONTEXT = 201, INVALID_HANDLE = 400, NOT_FOUND = 500 };
typedef uint64_t word;
typedef struct { int capturing, priority; unsigned flags; } Stream;
typedef struct { double milliseconds; int recorded; unsigned flags; } Event;

static char text[1 << 16];
static word primary = 0xC0, pool;
static __thread word current;
static __thread int mode;

static int say(const char* format, ...) {
  size_t length = strlen(text);
  va_list given;
  va_start(given, format);
  vsnprintf(text + length, sizeof text - length, format, given);
  va_end(given);
  return SUCCESS;
}
const char* fake_log(void) { return text; }
static Stream defaults[3];
static Stream* stream_of(word handle) { return handle < 3 ? &defaults[handle] : (Stream*)handle; }

int cuInit(unsigned flags) { return SUCCESS; }
int cuDriverGetVersion(int* version) { return *version = 13000, SUCCESS; }
int cuGetErrorName(int error, const char** name) { return *name = "CUDA_ERROR_OF_THE_FAKE", SUCCESS; }
int cuGetErrorString(int error, const char** words) { return *words = "an error of the fake driver", SUCCESS; }
int cuDeviceGetCount(int* count) { return *count = 1, SUCCESS; }
int cuDeviceGet(int* device, int ordinal) { return *device = ordinal, SUCCESS; }
int cuDeviceGetName(char* name, int length, int device) { return strncpy(name, "Fake GPU", length), SUCCESS; }
int cuDeviceTotalMem_v2(size_t* bytes, int device) { return *bytes = 1 << 30, SUCCESS; }
int cuDeviceGetAttribute(int* value, int which, int device) {
  return *value = which == 75 ? 9 : which == 76 ? 0 : which == 97 ? 232448 : 1, SUCCESS;
}
int cuDeviceGetDefaultMemPool(word* result, int device) { return *result = (word)&pool, SUCCESS; }
int cuDeviceGetMemPool(word* result, int device) { return *result = (word)&pool, SUCCESS; }
int cuDevicePrimaryCtxRetain(word* context, int device) { return *context = primary, SUCCESS; }
int cuDevicePrimaryCtxRelease_v2(int device) { return SUCCESS; }
int cuCtxGetCurrent(word* context) { return *context = current, SUCCESS; }
int cuCtxSetCurrent(word context) { return current = context, SUCCESS; }
int cuCtxPushCurrent_v2(word context) { return current = context, SUCCESS; }
int cuCtxPopCurrent_v2(word* context) { return *context = current, SUCCESS; }
int cuCtxGetDevice(int* device) { return *device = 0, current ? SUCCESS : INVALID_CONTEXT; }
int cuCtxSynchronize(void) { return SUCCESS; }
int cuCtxGetStreamPriorityRange(int* least, int* greatest) { return *least = 0, *greatest = -5, SUCCESS; }
int cuThreadExchangeStreamCaptureMode(int* other) {
  int old = mode;
  return mode = *other, *other = old, SUCCESS;
}

int cuStreamCreateWithPriority(word* stream, unsigned flags, int priority) {
  Stream* made = calloc(1, sizeof(Stream));
  made->flags = flags, made->priority = priority;
  *stream = (word)made;
  return say("create stream %#lx\n", *stream);
}
int cuStreamDestroy_v2(word stream) { return say("destroy stream %#lx\n", stream); }
int cuStreamGetPriority(word stream, int* priority) { return *priority = stream_of(stream)->priority, SUCCESS; }
int cuStreamGetFlags(word stream, unsigned* flags) { return *flags = stream_of(stream)->flags, SUCCESS; }
int cuStreamGetCtx(word stream, word* context) { return *context = primary, SUCCESS; }
int cuStreamGetDevice(word stream, int* device) { return *device = 0, SUCCESS; }
int cuStreamSynchronize(word stream) { return SUCCESS; }
int cuStreamWaitEvent(word stream, word event, unsigned flags) { return say("wait %#lx\n", stream); }
int cuStreamIsCapturing(word stream, int* state) { return *state = stream_of(stream)->capturing, SUCCESS; }
int cuStreamBeginCapture_v2(word stream, int how) { return stream_of(stream)->capturing = 1, SUCCESS; }
int cuStreamEndCapture(word stream, word* graph) { return stream_of(stream)->capturing = 0, *graph = 0x6000, SUCCESS; }
int cuStreamGetCaptureInfo_v2(word stream, int* state, word* id, word* graph, word** nodes, size_t* count) {
  *state = stream_of(stream)->capturing;
  if (id) *id = 1;
  if (graph) *graph = 0x6000;
  if (count) *count = 0;
  return SUCCESS;
}
int cuStreamGetCaptureInfo_v3(word stream, int* state, word* id, word* graph, word** nodes, word** edges, size_t* count) {
  return cuStreamGetCaptureInfo_v2(stream, state, id, graph, nodes, count);
}
int cuGraphDestroy(word graph) { return SUCCESS; }

int cuEventCreate(word* event, unsigned flags) {
  Event* made = calloc(1, sizeof(Event));
  made->flags = flags;
  return *event = (word)made, SUCCESS;
}
int cuEventDestroy_v2(word event) { return free((void*)event), SUCCESS; }
int cuEventRecord(word event, word stream) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  ((Event*)event)->milliseconds = now.tv_sec * 1e3 + now.tv_nsec * 1e-6;
  ((Event*)event)->recorded = 1;
  return SUCCESS;
}
int cuEventQuery(word event) { return SUCCESS; }
int cuEventSynchronize(word event) { return SUCCESS; }
int cuEventElapsedTime_v2(float* milliseconds, word first, word second) {
  Event *begin = (Event*)first, *end = (Event*)second;
  if ((begin->flags | end->flags) & 2 || !begin->recorded || !end->recorded) return INVALID_HANDLE;
  return *milliseconds = (float)(end->milliseconds - begin->milliseconds), SUCCESS;
}

int cuMemAlloc_v2(word* address, size_t bytes) { return *address = (word)malloc(bytes), SUCCESS; }
int cuMemAllocAsync(word* address, size_t bytes, word stream) { return cuMemAlloc_v2(address, bytes); }
int cuMemAllocFromPoolAsync(word* address, size_t bytes, word from, word stream) {
  cuMemAlloc_v2(address, bytes);
  return say("allocate %zu on %#lx\n", bytes, stream);
}
int cuMemFree_v2(word address) { return free((void*)address), SUCCESS; }
int cuMemFreeAsync(word address, word stream) {
  free((void*)address);
  return say("free on %#lx\n", stream);
}
int cuMemHostAlloc(word* address, size_t bytes, unsigned flags) { return *address = (word)calloc(1, bytes), SUCCESS; }
int cuMemHostGetDevicePointer_v2(word* address, word host, unsigned flags) { return *address = host, SUCCESS; }
int cuMemcpyAsync(word to, word from, size_t bytes, word stream) { return memcpy((void*)to, (void*)from, bytes), SUCCESS; }
int cuMemsetD8Async(word to, unsigned char byte, size_t bytes, word stream) {
  return memset((void*)to, byte, bytes), SUCCESS;
}
int cuMemPoolGetAttribute(word from, int which, word* value) { return *value = 1, SUCCESS; }
int cuMemPoolSetAttribute(word from, int which, word* value) { return SUCCESS; }
int cuPointerGetAttribute(int* value, int which, word address) { return *value = 0, SUCCESS; }

int cuLibraryLoadData(word* library, const void* code, void* a, void* b, unsigned c, void* d, void* e, unsigned f) {
  return *library = 0x7000, SUCCESS;
}
int cuLibraryUnload(word library) { return SUCCESS; }
int cuLibraryGetKernel(word* kernel, word library, const char* name) {
  *kernel = 0x8000;
  return say("get kernel %s\n", name);
}
int cuKernelGetAttribute(int* value, int which, word kernel, int device) { return *value = 1024, SUCCESS; }
int cuLaunchKernel(
    word kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, word stream,
    void** parameters, void** extra) {
  return say("%s on %#lx\n", stream_of(stream)->capturing ? "record" : "launch", stream);
}

int cuGetProcAddress_v2(const char* name, void** address, int version, word flags, int* status) {
  static const char* const versions[] = {"%s_v3", "%s_v2", "%s"};
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  *address = NULL;
  for (int i = version < 12030; i < 3 && !*address; i++) {
    char symbol[256];
    snprintf(symbol, sizeof symbol, versions[i], name);
    *address = dlsym(library, symbol);
  }
  if (status) *status = *address ? 0 : 1;
  return *address ? SUCCESS : NOT_FOUND;
}
int cuGetProcAddress(const char* name, void** address, int version, word flags) {
  return cuGetProcAddress_v2(name, address, version, flags, NULL);
}
