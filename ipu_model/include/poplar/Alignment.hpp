/* Alignment of the code of vertices on the device: nothing on the host. */
#ifndef POPLAR_ALIGNMENT_HPP
#define POPLAR_ALIGNMENT_HPP
#define WORKER_ALIGN
#endif /* POPLAR_ALIGNMENT_HPP */
