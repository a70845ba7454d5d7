// Stand-in for Graphcore's unpublished helper library.
#pragma once

#define GC_DEPRECATED [[deprecated]]
