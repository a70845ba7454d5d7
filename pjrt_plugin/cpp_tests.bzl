"""One cc_test for each *_test.cc file."""

def cpp_tests(srcs, deps):
    """Declares a test named after each source's path: kernels_product_gemm_test.

    Args:
      srcs: the test sources, each with its own main().
      deps: what all of them link.
    """
    for src in srcs:
        native.cc_test(
            name = src.replace("/", "_")[:-len(".cc")],
            srcs = [src],
            linkopts = ["-lpthread"],
            deps = deps,
        )
