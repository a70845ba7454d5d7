/* Layouts that vertices may have on the device: all have the same form on the host. */
#ifndef POPLAR_AVAILABLEVTYPES_H
#define POPLAR_AVAILABLEVTYPES_H
#endif /* POPLAR_AVAILABLEVTYPES_H */
