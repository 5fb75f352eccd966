// Modules: host libraries made by host_compiler.py. Machine code of a GPU is refused, as a real driver
// refuses a host's.
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "state.h"

namespace emulated {

Module::~Module() {
    dlclose(library);
    close(file);
}

static CUresult load(CUmodule* out, const void* image, Context& context) {
    auto header = static_cast<const Elf64_Ehdr*>(image);
    if (memcmp(header->e_ident, ELFMAG, SELFMAG))
        return explain(CUDA_ERROR_INVALID_PTX, "PTX needs a real driver; compile for the host");
    if (header->e_machine != EM_X86_64)
        return explain(CUDA_ERROR_NO_BINARY_FOR_GPU, "a cubin needs a real driver; compile for the host");
    size_t num_bytes = header->e_shoff + size_t(header->e_shnum) * header->e_shentsize;  // the table is last
    // A file of its own, kept open: every load has its own variables, as on every die.
    int file = memfd_create("emulated_module", MFD_CLOEXEC);
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    void* library = nullptr;
    if (write(file, image, num_bytes) == ssize_t(num_bytes)) library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char* why = dlerror();
        close(file);
        return explain(CUDA_ERROR_INVALID_IMAGE, "%s", why ? why : "the image cannot be stored");
    }
    *out = emulator().modules.add<CUmodule>(std::unique_ptr<Module>(new Module{library, file, &context}));
    return CUDA_SUCCESS;
}

}  // namespace emulated

using namespace emulated;

DRIVER_API cuModuleLoadData(CUmodule* out, const void* image) {
    TURN_WITH_CONTEXT(turn);
    return is_hung(*turn.context) ? stuck("cuModuleLoadData") : load(out, image, *turn.context);
}

DRIVER_API cuModuleLoadDataEx(CUmodule* out, const void* image, unsigned, CUjit_option*, void**) {
    return cuModuleLoadData(out, image);
}

DRIVER_API cuModuleUnload(CUmodule handle) {
    Turn turn;
    Module* module = emulator().modules.find(handle);
    if (!module) return emulator().modules.was_released(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
    if (is_held(*module->context)) return stuck("cuModuleUnload");
    emulator().functions.remove_if([=](const Function& f) { return f.module == module; });
    emulator().modules.remove(handle);
    return CUDA_SUCCESS;
}

DRIVER_API cuModuleGetFunction(CUfunction* out, CUmodule handle, const char* name) {
    TURN_WITH_CONTEXT(turn);
    Module* module = emulator().modules.find(handle);
    if (!module) return CUDA_ERROR_INVALID_HANDLE;
    void* entry = dlsym(module->library, (std::string("emulated_launch_") + name).c_str());
    if (!entry) return explain(CUDA_ERROR_NOT_FOUND, "the module has no kernel %s", name);
    auto function = std::make_unique<Function>(Function{module, name, reinterpret_cast<LaunchEntry>(entry)});
    *out = emulator().functions.add<CUfunction>(std::move(function));
    return CUDA_SUCCESS;
}

DRIVER_API cuModuleGetGlobal(CUdeviceptr* address, size_t* num_bytes, CUmodule handle, const char* name) {
    TURN_WITH_CONTEXT(turn);
    Module* module = emulator().modules.find(handle);
    if (!module) return CUDA_ERROR_INVALID_HANDLE;
    void* variable = dlsym(module->library, name);
    if (!variable) return explain(CUDA_ERROR_NOT_FOUND, "the module has no variable %s", name);
    Dl_info info;
    Elf64_Sym* symbol = nullptr;
    dladdr1(variable, &info, reinterpret_cast<void**>(&symbol), RTLD_DL_SYMENT);
    auto at = reinterpret_cast<CUdeviceptr>(variable);
    size_t size_bytes = symbol ? symbol->st_size : 0;
    emulator().allocations[at] = {size_bytes, module->context, MemoryKind::module_variable};
    if (address) *address = at;
    if (num_bytes) *num_bytes = size_bytes;
    return CUDA_SUCCESS;
}
