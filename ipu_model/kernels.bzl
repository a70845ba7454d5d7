"""Libraries of kernels, as ipu_model_kernels in CMakeLists.txt makes them."""

KERNEL_OPTIONS = [
    "-O3",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=fast",
]
ISA_OPTIONS = {
    "avx2": ["-march=x86-64-v3"],
    "avx512": [
        "-march=x86-64-v4",
        "-mprefer-vector-width=512",
    ],
}

def kernels(name, srcs, deps, copts, plain_copts = [], alwayslink = False):
    """Declares a library; *_isa.cc is compiled once for each instruction set, the other files choose at run time.

    Args:
      name: the library's name.
      srcs: the sources.
      deps: what all of them depend on.
      copts: options of all of them.
      plain_copts: options of the sources that are compiled once.
      alwayslink: whether the library is linked whole.
    """
    for isa, options in ISA_OPTIONS.items():
        native.cc_library(
            name = name + "_" + isa,
            srcs = [src for src in srcs if src.endswith("_isa.cc")],
            copts = copts + KERNEL_OPTIONS + options,
            local_defines = ["ISA_NAMESPACE=" + isa],
            deps = deps,
        )
    native.cc_library(
        name = name,
        srcs = [src for src in srcs if not src.endswith("_isa.cc")],
        alwayslink = alwayslink,
        copts = copts + KERNEL_OPTIONS + plain_copts,
        linkopts = ["-lpthread"],
        deps = deps + [":" + name + "_" + isa for isa in ISA_OPTIONS],
    )
