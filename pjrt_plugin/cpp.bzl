"""What the C++ packages share: options of exported libraries, and one cc_test for each *_test.cc file."""

# The plugin exports what the Python bindings call: exports.map says which names.
EXPORTED = ["-fvisibility=default"] + select({
    "//:clang": [],
    "//conditions:default": ["-fno-gnu-unique"],
})

def cpp_tests(srcs, deps, copts):
    """Declares a test named after each source's path, as CMake does: kernels_product_gemm_test.

    Args:
      srcs: the test sources; their main() is check's unless they have one.
      deps: what all of them link.
      copts: options of all of them.
    """
    for src in srcs:
        native.cc_test(
            name = src.replace("/", "_")[:-len(".cc")],
            srcs = [src],
            # Compiling a test takes longer than running it.
            copts = copts + ["-Og"],
            linkopts = ["-lpthread"],
            # Shared libraries would not show each other what has hidden visibility.
            linkstatic = True,
            deps = deps,
        )
