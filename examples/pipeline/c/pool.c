/* The third stage of convolution.yaml: the largest of each 2 x 2 values. */
#define _POSIX_C_SOURCE 200809L
#define FL_IMPLEMENTATION
#include "fairlead_stage.h"

static float larger(float a, float b)
{
    return a > b ? a : b;
}

int main(void)
{
    fl_stage stage;
    fl_frame in;
    if (fl_open(&stage, "Tensor(float32, ?x?)", "Tensor(float32, ?x?)", 2)) return 1;
    while (fl_receive(&stage, &in) > 0) {
        uint32_t width = in.part[0].shape[1];
        uint32_t shape[] = {in.part[0].shape[0] / 2, width / 2};
        float *data = in.part[0].data, *made = data; /* each value is written behind those that made it */
        for (uint32_t row = 0; row < shape[0]; row++)
            for (uint32_t column = 0; column < shape[1]; column++) {
                const float *at = data + (size_t)2 * row * width + 2 * column;
                *made++ = larger(larger(at[0], at[1]), larger(at[width], at[width + 1]));
            }
        fl_part result = fl_array(FL_FLOAT32, 2, shape, data);
        if (fl_send(&stage, &in, &result)) return 1;
    }
    return 0;
}
