# Writes a file past the kernel's cache with asynchronous I/O, again and again, and compares what a cached read then shows. Prints how often that was old and stayed so.
# Arguments: the file, rounds, this system's numbers of io_setup, io_submit and io_getevents, and its O_DIRECT.
use strict;
use warnings;

my ($path, $rounds, $setup, $submit, $getevents, $direct) = @ARGV;
my $size = 655360;

sub read_cached {
    open my $file, '<', $path or die "open: $!";
    sysread($file, my $read, $size) == $size or die "read: $!";
    return $read;
}

my $context = "\0" x 8;
syscall($setup, 8, $context) == 0 or die "io_setup: $!";
my $number = unpack 'Q', $context;
sysopen my $file, $path, 1 | $direct or die "open: $!";
my $stale = 0;
for my $round (1 .. $rounds) {
    my $data = chr(64 + $round % 2) x $size;
    # struct iocb of linux/aio_abi.h; 1 is IOCB_CMD_PWRITE.
    my $iocb = pack 'Q L L S s L p Q q Q L L', 0, 0, 0, 1, 0, fileno $file, $data, $size, 0, 0, 0, 0;
    my $list = pack 'p', $iocb;
    syscall($submit, $number, 1, $list) == 1 or die "io_submit: $!";
    my $event = "\0" x 32;
    syscall($getevents, $number, 1, 1, $event, 0) == 1 or die "io_getevents: $!";
    unpack('x16 q', $event) == $size or die 'written: ' . unpack 'x16 q', $event;
    next if read_cached() eq $data;
    # The kernel is told right behind the reply.
    select undef, undef, undef, 0.2;
    $stale++ if read_cached() ne $data;
}
print "$stale";
