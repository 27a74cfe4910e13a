/* The first stage of convolution.yaml: a grey image, convolved with a Laplacian of N x N (conv --size N). */
#define _POSIX_C_SOURCE 200809L
#define FL_IMPLEMENTATION
#include "fairlead_stage.h"

/* Write the (height - size + 1) x (width - size + 1) places where the whole kernel lies inside the image. */
static void convolve(const uint8_t *image, uint32_t height, uint32_t width, uint32_t size, float *made)
{
    for (uint32_t row = 0; row + size <= height; row++)
        for (uint32_t column = 0; column + size <= width; column++) {
            float sum = 0;
            for (uint32_t y = 0; y < size; y++)
                for (uint32_t x = 0; x < size; x++)
                    sum -= image[(row + y) * width + column + x];
            sum += (float)(size * size) * image[(row + size / 2) * width + column + size / 2];
            *made++ = sum;
        }
}

int main(int count, char **words)
{
    fl_stage stage;
    fl_frame in;
    uint32_t size = 3;
    float *made = NULL;
    if (count == 3 && !strcmp(words[1], "--size")) size = (uint32_t)strtoul(words[2], NULL, 10);
    if (size < 1 || size > 15) {
        fprintf(stderr, "--size: write a number from 1 to 15\n");
        return 2;
    }
    if (fl_open(&stage, "Tensor(uint8, ?x?)", "Tensor(float32, ?x?)", 2)) return 1;
    while (fl_receive(&stage, &in) > 0) {
        const fl_part *image = &in.part[0];
        if (image->shape[0] < size || image->shape[1] < size) {
            fl_fail(&stage, "the image is smaller than the kernel");
            continue;
        }
        uint32_t shape[] = {image->shape[0] - size + 1, image->shape[1] - size + 1};
        fl_part result = fl_array(FL_FLOAT32, 2, shape, NULL);
        made = result.data = realloc(made, result.bytes);
        convolve(image->data, image->shape[0], image->shape[1], size, made);
        if (fl_send(&stage, &in, &result)) return 1;
    }
    free(made);
    return 0;
}
