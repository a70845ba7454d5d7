// Stack sizes of assembly functions: nothing on the host.
#ifndef POPLAR_STACKSIZEDEFS_HPP
#define POPLAR_STACKSIZEDEFS_HPP

#define DEF_STACK_USAGE(size, function)

#endif  // POPLAR_STACKSIZEDEFS_HPP
