#!/usr/bin/env bash
# Detect accelerators on this machine and on two replayed boards, then place a dozen models.
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

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp examples/demo/*.yaml "$work"
.venv/bin/python -m fairlead.zoo "$work" >/dev/null

say "What ResNet-50 needs, without running it"
$fairlead analyze "$work/resnet50.onnx" | head -4

say "How it would run on an Edge TPU behind USB 3 and USB 2, on two Jetsons, on a seventh of an A100, and here"
$fairlead estimate "$work/resnet50.onnx" --on coral-usb,coral-usb@usb2,jetson-nano,jetson-orin-nano,a100@1/7
$fairlead estimate "$work/resnet50.onnx"

say "A dozen models on three boards, a GPU server and this machine; one requests too much (exit code 1)"
$fairlead schedule --cluster "$work/fleet.yaml" --here --workloads "$work/apps.yaml" || test $? = 1

say "Next"
echo "  $fairlead detect -v                      # the evidence for every line"
echo "  make setup && $fairlead calibrate        # measure this machine (with ONNX Runtime): sharper predictions"
echo "  $fairlead estimate MODEL.onnx --on all   # your model on every device of the catalog"
echo "  $fairlead simulate --trace examples/simulate/day.yaml --cluster examples/simulate/fleet.yaml --policy fairlead,spread"
echo "  $fairlead serve agent                    # live values for Prometheus"
