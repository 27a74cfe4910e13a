/* A stage of a fairlead pipeline in C: frames come on the standard input and go back on the standard output.
 *
 * SPDX-License-Identifier: Apache-2.0
 *
 * The protocol is docs/reference/pipeline-protocol.md. Define FL_IMPLEMENTATION in one file of the program:
 *
 *     fl_stage stage;
 *     fl_frame in;
 *     if (fl_open(&stage, "Tensor(float32)", "Tensor(float32)", 2)) return 1;
 *     while (fl_receive(&stage, &in) > 0)
 *         fl_send(&stage, &in, &in.part[0]);
 *     return 0;
 *
 * Numbers of the protocol are little endian, and so must the machine be.
 */
#ifndef FAIRLEAD_STAGE_H
#define FAIRLEAD_STAGE_H

#include <stddef.h>
#include <stdint.h>

#define FL_PROTOCOL 1
#define FL_MOST_PARTS 8
#define FL_MOST_DIMENSIONS 8

enum fl_dtype {
    FL_BOOL = 1, FL_UINT8 = 2, FL_INT8 = 3, FL_UINT16 = 4, FL_INT16 = 5, FL_UINT32 = 6, FL_INT32 = 7,
    FL_UINT64 = 8, FL_INT64 = 9, FL_FLOAT16 = 10, FL_FLOAT32 = 11, FL_FLOAT64 = 12, FL_RECORD = 100
};

/* One array, or the bytes of a JSON object (FL_RECORD, one dimension). */
typedef struct {
    uint8_t dtype, dimensions;
    uint32_t shape[FL_MOST_DIMENSIONS];
    uint64_t bytes;
    void *data;
} fl_part;

/* A frame that was received. Its parts are valid until the next fl_receive. */
typedef struct {
    uint32_t stream, epoch;
    uint64_t sequence, trace;
    double captured, deadline; /* seconds of CLOCK_BOOTTIME; deadline: infinity without one */
    unsigned parts;
    fl_part part[FL_MOST_PARTS];
} fl_frame;

typedef struct {
    int in, out;
    void *payload;
    size_t room;
} fl_stage;

/* Exchange hellos. The ports are written as in a pipeline's file; `frames` is how many frames may be sent to
 * this program before it answers the first. From here on printf writes to the log. 0, or -1. */
int fl_open(fl_stage *stage, const char *input, const char *output, int frames);

/* Wait for a frame: 1; after the last one: 0; on an error, which is printed: -1. */
int fl_receive(fl_stage *stage, fl_frame *frame);

/* Answer a frame with one array or record: 0, or -1. Each frame is answered once, in the order received. */
int fl_send(fl_stage *stage, const fl_frame *frame, const fl_part *part);

/* Answer a frame with nothing: it goes no further. */
int fl_skip(fl_stage *stage, const fl_frame *frame);

/* Answer a frame with an error; the stage's on_error decides what follows. */
int fl_fail(fl_stage *stage, const char *reason);

/* Describe an array by its dtype and shape. */
fl_part fl_array(int dtype, int dimensions, const uint32_t *shape, void *data);

#endif

#ifdef FL_IMPLEMENTATION
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FL_FIXED 96
#define FL_MOST_HEADER 4096
#define FL_CONTROL UINT32_MAX
enum { FL_END = 0, FL_HELLO = 1, FL_ERROR = 2 };

static int fl_fault(const char *what)
{
    fprintf(stderr, "fairlead_stage: %s\n", what);
    return -1;
}

/* 1: all of it; 0: the input ended before the first byte; -1: it ended inside, or cannot be read. */
static int fl_read(int descriptor, void *data, size_t size)
{
    size_t done = 0;
    while (done < size) {
        ssize_t count = read(descriptor, (char *)data + done, size - done);
        if (count == 0) return done ? fl_fault("the input ended inside a message") : 0;
        if (count > 0) done += (size_t)count;
        else if (errno != EINTR) return fl_fault(strerror(errno));
    }
    return 1;
}

static int fl_write(int descriptor, const void *data, size_t size)
{
    size_t done = 0;
    while (done < size) {
        ssize_t count = write(descriptor, (const char *)data + done, size - done);
        if (count >= 0) done += (size_t)count;
        else if (errno != EINTR) return fl_fault(strerror(errno));
    }
    return 0;
}

static const size_t fl_sizes[] = {0, 1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 4, 8};

fl_part fl_array(int dtype, int dimensions, const uint32_t *shape, void *data)
{
    fl_part part = {(uint8_t)dtype, (uint8_t)dimensions, {0}, dtype == FL_RECORD ? 1 : fl_sizes[dtype], data};
    for (int index = 0; index < dimensions; index++) {
        part.shape[index] = shape[index];
        part.bytes *= shape[index];
    }
    return part;
}

/* Write one message: the header, one part or none, and its bytes. */
static int fl_message(fl_stage *stage, uint32_t stream, uint32_t epoch, uint64_t sequence, const fl_part *part)
{
    unsigned char header[FL_FIXED + 2 + 4 * FL_MOST_DIMENSIONS + 8] = {'F', 'L', 'F', '1'};
    uint32_t length = FL_FIXED;
    uint16_t parts = part != NULL;
    if (part) {
        header[length] = part->dtype;
        header[length + 1] = part->dimensions;
        memcpy(header + length + 2, part->shape, 4u * part->dimensions);
        length += 2 + 4u * part->dimensions;
        memcpy(header + length, &part->bytes, 8);
        length += 8;
    }
    memcpy(header + 4, &length, 4);
    memcpy(header + 8, &stream, 4);
    memcpy(header + 12, &epoch, 4);
    memcpy(header + 16, &sequence, 8);
    memcpy(header + 48, &parts, 2);
    if (fl_write(stage->out, header, length)) return -1;
    return part ? fl_write(stage->out, part->data, part->bytes) : 0;
}

int fl_send(fl_stage *stage, const fl_frame *frame, const fl_part *part)
{
    return fl_message(stage, frame->stream, frame->epoch, frame->sequence, part);
}

int fl_skip(fl_stage *stage, const fl_frame *frame)
{
    return fl_message(stage, frame->stream, frame->epoch, frame->sequence, NULL);
}

int fl_fail(fl_stage *stage, const char *reason)
{
    uint32_t length = (uint32_t)strlen(reason);
    fl_part text = fl_array(FL_UINT8, 1, &length, (void *)reason);
    return fl_message(stage, FL_CONTROL, 0, FL_ERROR, &text);
}

/* Read the entries of the parts behind the fixed header, and return the bytes of the payload. */
static int fl_parts(const unsigned char *entry, const unsigned char *end, fl_frame *frame, uint64_t *total)
{
    *total = 0;
    for (unsigned index = 0; index < frame->parts; index++) {
        fl_part *part = &frame->part[index];
        if (end - entry < 2 || entry[1] > FL_MOST_DIMENSIONS || end - entry < 10 + 4 * entry[1])
            return fl_fault("a header ends inside a part");
        part->dtype = entry[0];
        part->dimensions = entry[1];
        memcpy(part->shape, entry + 2, 4u * part->dimensions);
        memcpy(&part->bytes, entry + 2 + 4u * part->dimensions, 8);
        entry += 10 + 4u * part->dimensions;
        *total += (part->bytes + 63) / 64 * 64; /* aligned for vector instructions */
    }
    return 0;
}

int fl_receive(fl_stage *stage, fl_frame *frame)
{
    unsigned char header[FL_MOST_HEADER];
    uint32_t length;
    uint16_t parts;
    uint64_t total;
    char *data;
    int got = fl_read(stage->in, header, FL_FIXED);
    if (got <= 0) return got;
    memcpy(&length, header + 4, 4);
    if (memcmp(header, "FLF1", 4) || length < FL_FIXED || length > FL_MOST_HEADER)
        return fl_fault("the input is not a frame");
    if (length > FL_FIXED && fl_read(stage->in, header + FL_FIXED, length - FL_FIXED) <= 0) return -1;
    memcpy(&frame->stream, header + 8, 4);
    memcpy(&frame->epoch, header + 12, 4);
    memcpy(&frame->sequence, header + 16, 8);
    memcpy(&frame->captured, header + 24, 8);
    memcpy(&frame->deadline, header + 32, 8);
    memcpy(&frame->trace, header + 40, 8);
    memcpy(&parts, header + 48, 2);
    frame->parts = parts;
    if (frame->stream == FL_CONTROL && frame->sequence == FL_END) return 0;
    if (parts > FL_MOST_PARTS) return fl_fault("a frame has more parts than FL_MOST_PARTS");
    if (fl_parts(header + FL_FIXED, header + length, frame, &total)) return -1;
    if (total > stage->room) {
        free(stage->payload);
        stage->room = total;
        if (posix_memalign(&stage->payload, 64, total)) return fl_fault("no memory for a frame");
    }
    data = stage->payload;
    for (unsigned index = 0; index < parts; index++) {
        fl_part *part = &frame->part[index];
        part->data = data;
        if (part->bytes && fl_read(stage->in, data, part->bytes) <= 0) return -1;
        data += (part->bytes + 63) / 64 * 64;
    }
    return 1;
}

int fl_open(fl_stage *stage, const char *input, const char *output, int frames)
{
    char text[512];
    fl_frame hello;
    fl_part part;
    uint32_t length = (uint32_t)snprintf(
        text, sizeof text, "{\"in\": \"%s\", \"out\": \"%s\", \"frames\": %d}", input, output, frames);
    if (length >= sizeof text) return fl_fault("the ports are too long");
    memset(stage, 0, sizeof *stage);
    stage->out = dup(STDOUT_FILENO);
    if (stage->out < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) return fl_fault(strerror(errno));
    if (fl_receive(stage, &hello) <= 0 || hello.stream != FL_CONTROL || hello.sequence != FL_HELLO)
        return fl_fault("no hello came: this program is a stage of a pipeline (fairlead pipeline run FILE)");
    if (hello.epoch != FL_PROTOCOL) return fl_fault("the hello is of another version of the protocol");
    part = fl_array(FL_RECORD, 1, &length, text);
    return fl_message(stage, FL_CONTROL, FL_PROTOCOL, FL_HELLO, &part);
}
#endif
