/* The four steps of the thesis's application, as plain loops: colour to grey, convolution, ReLU, max-pool.
 *
 * Each step computes the rows from `first` up to `end` of what it makes, so that threads can share one image.
 * Compiled with -O0 it is the thesis's slow kernel, with -O3 the fast one.
 */
#include <stddef.h>
#include <stdint.h>

enum { SIZE = 3 };

static const float kernel[SIZE][SIZE] = {{-1, -1, -1}, {-1, 8, -1}, {-1, -1, -1}};

void grey(const uint8_t *image, uint8_t *made, size_t width, size_t first, size_t end)
{
    for (size_t row = first; row < end; row++)
        for (size_t column = 0; column < width; column++) {
            const uint8_t *pixel = image + 3 * (row * width + column);
            made[row * width + column] = (uint8_t)((77 * pixel[0] + 150 * pixel[1] + 29 * pixel[2]) >> 8);
        }
}

/* The result has SIZE - 1 rows and columns less than the image, which is `width` wide. */
void convolve(const uint8_t *image, float *made, size_t width, size_t first, size_t end)
{
    size_t wide = width - SIZE + 1;
    for (size_t row = first; row < end; row++)
        for (size_t column = 0; column < wide; column++) {
            float sum = 0;
            for (size_t y = 0; y < SIZE; y++)
                for (size_t x = 0; x < SIZE; x++)
                    sum += kernel[y][x] * (float)image[(row + y) * width + column + x];
            made[row * wide + column] = sum;
        }
}

void relu(const float *values, float *made, size_t width, size_t first, size_t end)
{
    for (size_t index = first * width; index < end * width; index++)
        made[index] = values[index] < 0 ? 0 : values[index];
}

/* The largest of each 2 x 2 values; `width` is that of the values. */
void pool(const float *values, float *made, size_t width, size_t first, size_t end)
{
    size_t wide = width / 2;
    for (size_t row = first; row < end; row++)
        for (size_t column = 0; column < wide; column++) {
            const float *at = values + 2 * row * width + 2 * column;
            float above = at[0] > at[1] ? at[0] : at[1];
            float below = at[width] > at[width + 1] ? at[width] : at[width + 1];
            made[row * wide + column] = above > below ? above : below;
        }
}
