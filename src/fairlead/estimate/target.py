"""A device as a model would run on it: a catalog row with link, power mode and share, or a detected one."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from fairlead.calibration import Setup
from fairlead.catalog import Catalog, CatalogDevice
from fairlead.catalog.device import Variant
from fairlead.catalog.lookup import find_variant
from fairlead.errors import SettingsError
from fairlead.estimate.device_expression import DeviceExpression, parse
from fairlead.estimate.speeds import DeviceSpeed, speed
from fairlead.inventory import Accelerator, MigPartition
from fairlead.units import BitsPerSecond, Bytes, BytesPerSecond, Ops, Watts, format_bytes

ALL: Final = "all"
_POWER_ROUNDED: Final = 1.05
"""Power modes and data sheets give watts in round numbers."""
_CLOCK_OF_POWER: Final = 0.8
"""Speed is proportional to the allowed watts to this power.

GPU clocks of nvpmodel, over the best mode's: TX2 7.5 of 15 W 0.66, Nano 5 of 10 W 0.69, AGX Xavier 15 of 30 W
0.49 and 10 W 0.38, AGX Orin 30 of 60 W 0.47 and 15 W 0.32.
"""
_BANDWIDTH_OF_CLOCK: Final = 0.6
"""A power mode slows memory less than the clock: AGX Xavier at 15 W to 0.62, its GPU to 0.49."""


@dataclass(frozen=True, slots=True)
class Target:
    """A device to predict for, as far as it is known before any run."""

    name: str
    """As the user names it."""
    device: str
    """The catalog id."""
    vendor: str
    kind: str
    family: str
    rates: Mapping[str, Ops] = field(default_factory=dict)
    """Dense operations per second by precision, under power mode, clock and share."""
    bandwidth: BytesPerSecond | None = None
    memory: Bytes | None = None
    """The device's own, or the host's where it uses that; None where not known or models stream through."""
    on_chip: Bytes | None = None
    """For weights, in a device without its own memory; further weights come over the link in every run."""
    bus: str = ""
    link: BitsPerSecond | None = None
    """Only for devices that depend on it."""
    power: Watts | None = None
    """The limit of its power mode."""
    capped: bool = False
    """The power mode is below the best."""
    share: float = 1.0
    reason: str = ""
    """Why no model can run on it."""

    @property
    def speed(self) -> DeviceSpeed:
        """How much of the data sheet such a device reaches."""
        return speed(self.kind, self.vendor, self.family, self.device)


def targets(texts: Iterable[str], catalog: Catalog) -> list[Target]:
    """Return the named devices, each once.

    A family, vendor or kind is all of its products, `all` every product of the catalog.
    """
    names = [part.strip() for text in texts for part in text.split(",") if part.strip()]
    by_name: dict[str, Target] = {}
    for name in names:
        rows = _group_rows(name, catalog)
        for device in _group_targets(rows, name, catalog) if rows else [target(name, catalog)]:
            by_name.setdefault(device.name.lower(), device)
    if not by_name:
        raise SettingsError("no device is named", "name one: --on coral-usb, or --on all")
    return list(by_name.values())


def _group_rows(name: str, catalog: Catalog) -> list[CatalogDevice]:
    """Return the rows of a group, only products where it has any; none where the name is a single device."""
    word = parse(name).device
    rows = list(catalog.devices.values()) if word == ALL else catalog.group(word)
    return [row for row in rows if not row.generic] or rows


def _group_targets(rows: Iterable[CatalogDevice], name: str, catalog: Catalog) -> list[Target]:
    """Return every device of a group with the terms after `@`, or with the reason why it cannot take them."""
    _, at, terms = name.partition("@")
    devices, refusal = [], None
    for row in rows:
        text = f"{row.id}{at}{terms}"
        try:
            devices.append(target(text, catalog))
        except SettingsError as error:
            refusal = error
            devices.append(
                replace(_data_sheet_target(text, row, None), reason=str(error).removeprefix(f"{text}: "))
            )
    if refusal is not None and all(device.reason for device in devices):
        raise refusal
    return devices


def target(text: str, catalog: Catalog) -> Target:
    """Return a device by name: `coral-usb@usb2`, `jetson-agx-xavier@15w`, `a100@1/7`, `a100@80GiB@1/7`."""
    expression = parse(text)
    device = catalog.get(expression.device, groups=True)
    variant = _in_mode(device, _variant(device, expression), expression)
    whole = _data_sheet_target(text, device, variant)
    linked = _with_link(whole, device, expression)
    return _with_share(_with_power_mode(linked, device, variant, expression), device, expression)


def target_of_accelerator(accelerator: Accelerator, catalog: Catalog) -> Target:
    """Return the target of a detected accelerator, in its present state."""
    name = accelerator.model or next(iter(accelerator.candidates), "")
    device = catalog.devices.get(name)
    if device is None:
        sheet = Target(accelerator.id, name, accelerator.vendor, accelerator.kind, "")
    else:
        sheet = _data_sheet_target(accelerator.id, device, None)
    clock, mig = _clock_share(accelerator), accelerator.mig
    streams = device is not None and device.link is not None
    usable = accelerator.state.allocatable
    return replace(
        sheet,
        rates=_dense_rates(accelerator.peak if streams else accelerator.effective),
        bandwidth=_instance_bandwidth(_slow_down(sheet.bandwidth, 1.0 if streams else clock), mig),
        memory=None if streams else accelerator.memory,
        link=accelerator.link.rate if streams and accelerator.link else sheet.link,
        power=accelerator.power or sheet.power,
        share=1.0 if mig is None or mig.compute_share is None else mig.compute_share,
        reason="" if usable else f"it is {accelerator.state.value} only: {accelerator.reason}",
    )


def target_of_setup(setup: Setup, catalog: Catalog) -> Target | None:
    """Return the target of a calibrated setup; None where the device is not in the catalog."""
    device = catalog.devices.get(setup.device)
    if device is None:
        return None
    sheet = _data_sheet_target(setup.name, device, None)
    rates = dict(sheet.rates)
    if setup.effective_ops and device.link is None:  # elsewhere it includes the link, which is counted apart
        rates[setup.precision] = Ops(setup.effective_ops)
    link = BitsPerSecond(setup.link_bits_per_second) if setup.link_bits_per_second else sheet.link
    return replace(sheet, rates=rates, link=link if device.link else None, power=setup.power or sheet.power)


def _data_sheet_target(name: str, device: CatalogDevice, variant: Variant | None) -> Target:
    """Return the figures of the catalog; where SKUs differ and none is named, the least memory among them."""
    peak = variant.peak if variant and variant.peak else device.peak
    peak = peak or next((option.peak for option in device.variants if option.peak), {})
    sizes = [option.memory for option in device.variants if option.memory]
    memory = variant.memory if variant and variant.memory else device.memory or min(sizes, default=None)
    return Target(
        name=name,
        device=device.id,
        vendor=device.vendor,
        kind=device.kind,
        family=device.family,
        rates=_dense_rates(peak),
        bandwidth=(variant.bandwidth if variant else None) or device.bandwidth,
        memory=None if device.link else memory,
        on_chip=memory if device.link else None,
        bus=device.link.bus if device.link else "",
        link=device.link.full if device.link else None,
        power=(variant.power if variant else None) or device.power,
    )


def _dense_rates(peak: Mapping[str, Ops]) -> dict[str, Ops]:
    """Return the rates without those that hold for pruned models only, and without zeros."""
    return {name: rate for name, rate in peak.items() if rate > 0 and not name.endswith("-sparse")}


def _clock_share(accelerator: Accelerator) -> float:
    """Return the share of its peak that clock and power mode leave an accelerator."""
    pairs = [(rate, accelerator.peak.get(name, 0)) for name, rate in accelerator.effective.items()]
    return min((rate / peak for rate, peak in pairs if peak), default=1.0)


def _slow_down(bandwidth: BytesPerSecond | None, clock: float) -> BytesPerSecond | None:
    return None if bandwidth is None else BytesPerSecond(bandwidth * clock**_BANDWIDTH_OF_CLOCK)


def _instance_bandwidth(bandwidth: BytesPerSecond | None, mig: MigPartition | None) -> BytesPerSecond | None:
    """Return the bandwidth of a MIG instance: it has the channels of its own part of the memory."""
    if mig is None or bandwidth is None:
        return bandwidth
    return None if mig.memory_share is None else BytesPerSecond(bandwidth * mig.memory_share)


def _variant(device: CatalogDevice, expression: DeviceExpression) -> Variant | None:
    if expression.memory is None:
        return find_variant(device, expression.device)
    for variant in device.variants:
        if variant.memory == expression.memory and not variant.mode:
            return variant
    if device.memory == expression.memory:
        return None
    sizes = sorted(
        {size for size in (device.memory, *(variant.memory for variant in device.variants)) if size}
    )
    known = ", ".join(format_bytes(size).replace(" ", "") for size in sizes)
    hint = f"it comes with {known}" if known else "leave the memory out"
    raise SettingsError(f"{expression.text}: no {device.id} has {format_bytes(expression.memory)}", hint)


def _in_mode(device: CatalogDevice, variant: Variant | None, expression: DeviceExpression) -> Variant | None:
    """Return the mode that allows the requested watts, where the plain SKU does not (Orin Nano Super)."""
    plain = (variant.power if variant else None) or device.power
    if expression.power is None or plain is None or expression.power <= plain * _POWER_ROUNDED:
        return variant
    modes = _modes(device, variant)
    enough = [mode for mode in modes if expression.power <= (mode.power or 0) * _POWER_ROUNDED]
    return min(enough, key=lambda mode: mode.power or 0, default=variant)


def _modes(device: CatalogDevice, variant: Variant | None) -> list[Variant]:
    """Return the modes of a SKU: those with its memory."""
    memory = (variant.memory if variant else None) or device.memory
    return [mode for mode in device.variants if mode.mode and mode.memory == memory]


def _with_link(whole: Target, device: CatalogDevice, expression: DeviceExpression) -> Target:
    if expression.link is None:
        return whole
    if device.link is None:
        hint = "leave the link out; devices with memory of their own hardly depend on it"
        raise SettingsError(f"{expression.text}: the catalog has no link for {device.id}", hint)
    if expression.bus != device.link.bus:
        raise SettingsError(
            f"{expression.text}: {device.id} is not on {expression.bus}", f"it is on {device.link.bus}"
        )
    return replace(whole, link=BitsPerSecond(min(expression.link, device.link.full)))


def _with_power_mode(
    whole: Target, device: CatalogDevice, variant: Variant | None, expression: DeviceExpression
) -> Target:
    if expression.power is None:
        return whole
    most, least = whole.power, device.power_min
    if most is None:
        raise SettingsError(f"{expression.text}: the catalog has no power for {device.id}", "leave it out")
    if not (least or 0) / _POWER_ROUNDED <= expression.power <= most * _POWER_ROUNDED:
        top = max(most, *(mode.power or 0 for mode in _modes(device, variant)), 0)
        hint = f"it takes {least:g} to {top:g} W" if least else f"it takes up to {top:g} W"
        raise SettingsError(f"{expression.text}: {device.id} has no mode of {expression.power:g} W", hint)
    clock = min(1.0, expression.power / most) ** _CLOCK_OF_POWER
    return replace(
        whole,
        rates={name: Ops(rate * clock) for name, rate in whole.rates.items()},
        bandwidth=_slow_down(whole.bandwidth, clock),
        power=expression.power,
        capped=clock < 1,
    )


def _with_share(whole: Target, device: CatalogDevice, expression: DeviceExpression) -> Target:
    if expression.share == 1:
        return whole
    if not device.shareable:
        raise SettingsError(f"{expression.text}: {device.id} cannot be shared", "leave the share out")
    return replace(
        whole,
        rates={name: Ops(rate * expression.share) for name, rate in whole.rates.items()},
        bandwidth=None if whole.bandwidth is None else BytesPerSecond(whole.bandwidth * expression.share),
        memory=None if whole.memory is None else Bytes(int(whole.memory * expression.share)),
        power=None if whole.power is None else Watts(whole.power * expression.share),
        share=expression.share,
    )
