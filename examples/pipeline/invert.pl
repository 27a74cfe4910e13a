#!/usr/bin/perl
# A stage in Perl, without a library: the negative of each image. exec: [perl, invert.pl]
use strict;
use warnings;

my $header = 'a4 V V V Q< d< d< Q< v x46';
my $control = 0xffffffff;
binmode STDIN;
binmode STDOUT;
$| = 1;

sub take {
    my ($size, $data) = (shift, '');
    while (length $data < $size) {
        read(STDIN, $data, $size - length $data, length $data) or exit 0;
    }
    return $data;
}

sub put {
    my ($stream, $epoch, $sequence, $parts, $table, $payload) = @_;
    print pack($header, 'FLF1', 96 + length $table, $stream, $epoch, $sequence, 0, 0, 0, $parts), $table, $payload;
}

my $hello = '{"in": "Image", "out": "Image", "frames": 2}';
put($control, 1, 1, 1, pack('C C V Q<', 100, 1, length $hello, length $hello), $hello);
while (1) {
    my (undef, $length, $stream, $epoch, $sequence, undef, undef, undef, $parts) = unpack $header, take(96);
    my ($table, $at, $size) = (take($length - 96), 0, 0);
    for (1 .. $parts) {
        my $dimensions = unpack 'C', substr $table, $at + 1, 1;
        $size += unpack 'Q<', substr $table, $at + 2 + 4 * $dimensions, 8;
        $at += 10 + 4 * $dimensions;
    }
    my $payload = take($size);
    put($stream, $epoch, $sequence, $parts, $table, ~$payload) if $stream != $control;
}
