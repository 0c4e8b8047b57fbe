/* lwIP asks each port for this file: its defaults suit any compiler of today. */
#include <stdlib.h>
#define LWIP_RAND() ((u32_t)random())
