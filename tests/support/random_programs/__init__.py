"""Operations of random programs, a file for each family; `support.programs` draws of them."""

from support.random_programs import (
    program_control,
    program_convolution,
    program_elementwise,
    program_fft,
    program_gradient,
    program_index,
    program_linear_algebra,
    program_product,
    program_random,
    program_reduce,
    program_sort,
    program_state,
    program_text,
    program_views,
    program_window,
)

DATA = program_views.OPERATIONS + program_index.OPERATIONS + program_sort.OPERATIONS
OPERATIONS = (
    program_elementwise.OPERATIONS
    + DATA
    + program_reduce.OPERATIONS
    + program_window.OPERATIONS
    + program_product.OPERATIONS
    + program_convolution.OPERATIONS
    + program_fft.OPERATIONS
    + program_linear_algebra.OPERATIONS
    + program_random.OPERATIONS
    + program_gradient.OPERATIONS
    + program_control.OPERATIONS
    + program_state.OPERATIONS
    + program_text.OPERATIONS
)
MOVES = program_views.MOVES + program_index.MOVES + program_text.MOVES + (program_elementwise.select,)
