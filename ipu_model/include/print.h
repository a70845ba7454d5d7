/* printf of codelets. */
#ifndef PRINT_H
#define PRINT_H

#include <stdio.h>

#endif /* PRINT_H */
