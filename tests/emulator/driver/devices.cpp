// The dies themselves: names, addresses, sizes, attributes. They are those of a Tesla K80 (GK210).
#include <cstdio>
#include <cstring>

#include "state.h"

namespace emulated {

// A K80's dies sit on neighbouring buses behind the card's own switch.
static int bus_of(int die) {
    const uint8_t* cards = emulator().settings.cards;
    int place = 0;
    for (int other = 0; other < die; other++) place += cards[other] == cards[die];
    return 5 + 4 * cards[die] + place;
}

bool are_peers(int a, int b) {
    const EmulatorSettings& s = emulator().settings;
    return a != b && s.has_peers && s.cards[a] == s.cards[b];
}

static const std::map<CUdevice_attribute, int>& attributes() {
    static const std::map<CUdevice_attribute, int> all = {
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
        {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
        {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 49152},
        {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
        {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
        {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
        {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 823500},
        {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 13},
        {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
        {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
        {CU_DEVICE_ATTRIBUTE_ECC_ENABLED, 1},
        {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 2505000},
        {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 384},
        {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 1572864},
        {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
        {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 2},
        {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 3},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 7},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 114688},
        {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 131072},
        {CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD, 1},
    };
    return all;
}

}  // namespace emulated

using namespace emulated;

DRIVER_API cuInit(unsigned) {
    std::lock_guard<std::recursive_mutex> lock(emulator().lock);
    emulator().initialised = true;
    return emulator().settings.num_dies ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

DRIVER_API cuDriverGetVersion(int* version) {
    *version = 11040;  // R470, the last driver that knows Kepler
    return CUDA_SUCCESS;
}

DRIVER_API cuDeviceGetCount(int* count) {
    *count = int(emulator().settings.num_dies);
    return CUDA_SUCCESS;
}

DRIVER_API cuDeviceGet(CUdevice* out, int ordinal) {
    TURN_WITH_DIE(turn, ordinal);
    *out = ordinal;
    return CUDA_SUCCESS;
}

DRIVER_API cuDeviceGetName(char* name, int size, CUdevice die) {
    TURN_WITH_DIE(turn, die);
    snprintf(name, size_t(size), "Tesla K80");
    return CUDA_SUCCESS;
}

static CUresult uuid_of(CUuuid* uuid, CUdevice die) {
    TURN_WITH_DIE(turn, die);
    memset(uuid->bytes, 0, sizeof uuid->bytes);
    memcpy(uuid->bytes, "emulated", 8);
    uuid->bytes[14] = char(bus_of(die) >> 8);
    uuid->bytes[15] = char(bus_of(die));
    return CUDA_SUCCESS;
}
DRIVER_API cuDeviceGetUuid(CUuuid* uuid, CUdevice die) { return uuid_of(uuid, die); }
DRIVER_API cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice die) { return uuid_of(uuid, die); }

DRIVER_API cuDeviceTotalMem(size_t* num_bytes, CUdevice die) {
    TURN_WITH_DIE(turn, die);
    *num_bytes = emulator().settings.memory_bytes;
    return CUDA_SUCCESS;
}

DRIVER_API cuDeviceComputeCapability(int* major, int* minor, CUdevice die) {
    TURN_WITH_DIE(turn, die);
    *major = 3;
    *minor = 7;
    return CUDA_SUCCESS;
}

DRIVER_API cuDeviceGetPCIBusId(char* text, int size, CUdevice die) {
    TURN_WITH_DIE(turn, die);
    snprintf(text, size_t(size), "0000:%02X:00.0", unsigned(bus_of(die)));
    return CUDA_SUCCESS;
}

DRIVER_API cuDeviceGetByPCIBusId(CUdevice* out, const char* text) {
    TURN_WITH_DIE(turn, 0);
    unsigned bus;
    if (sscanf(text, "0000:%X", &bus) != 1) return CUDA_ERROR_INVALID_VALUE;
    for (int die = 0; die < int(emulator().settings.num_dies); die++) {
        if (bus_of(die) != int(bus)) continue;
        *out = die;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_DEVICE;
}

DRIVER_API cuDeviceCanAccessPeer(int* can, CUdevice die, CUdevice peer) {
    TURN_WITH_DIE(turn, die);
    if (peer < 0 || peer >= int(emulator().settings.num_dies)) return CUDA_ERROR_INVALID_DEVICE;
    *can = are_peers(die, peer);
    return CUDA_SUCCESS;
}

DRIVER_API cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice die) {
    TURN_WITH_DIE(turn, die);
    auto found = attributes().find(attribute);
    *value = found == attributes().end() ? 0 : found->second;
    if (attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID) *value = bus_of(die);
    if (attribute == CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID) *value = emulator().settings.cards[die];
    return CUDA_SUCCESS;
}
