#!/usr/bin/env bash
# What fairlead finds on this machine, and on three boards that are replayed from captures.
set -eu
fairlead=.venv/bin/fairlead
hosts=tests/hosts

bold='' plain=''
[ -t 1 ] && bold=$'\033[1m' plain=$'\033[0m'

say() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }

say "This machine"
$fairlead detect

say "A Jetson Nano with a Coral stick in its port: two devices, one memory counted once"
$fairlead detect --root $hosts/jetson-nano-coral-usb/root

say "A Raspberry Pi 5 with a Hailo behind one PCIe lane: two chips share that id, so neither is guessed"
$fairlead detect --root $hosts/raspberry-pi-5-hailo/root

say "A Coral card whose driver is missing: what is there, what it lacks, what to do"
$fairlead detect --root $hosts/coral-pcie-1-present/root

say "Next"
echo "  $fairlead detect -v             # the evidence for every line"
echo "  $fairlead detect -o json        # the same for programs"
echo "  $fairlead catalog list          # every device it knows"
echo "  $fairlead serve agent           # live values for Prometheus"
