/* The second stage of convolution.yaml: every negative value becomes 0, in place. */
#define _POSIX_C_SOURCE 200809L
#define FL_IMPLEMENTATION
#include "fairlead_stage.h"

int main(void)
{
    fl_stage stage;
    fl_frame in;
    if (fl_open(&stage, "Tensor(float32)", "Tensor(float32)", 2)) return 1;
    while (fl_receive(&stage, &in) > 0) {
        float *value = in.part[0].data;
        for (uint64_t left = in.part[0].bytes / sizeof *value; left; left--, value++)
            *value = *value < 0 ? 0 : *value;
        if (fl_send(&stage, &in, &in.part[0])) return 1;
    }
    return 0;
}
